"""What the callers' microphones hear: "go forward ten meters" in a quiet room, cut into packets.

The room has a noise of -71 dBFS: digital silence would be Opus packets of three bytes, which no microphone
makes."""

import array
import pathlib
import subprocess
import wave

RECORDING = pathlib.Path("/usr/share/pocketsphinx/test/data/goforward.raw")
RATE = 24_000
# As parley.js sets its encoder.
BITRATE, COMPLEXITY = 28, 5
PACKETS_MS = (20, 40, 60)
# The utterance is filled up in front to a multiple of every packet: its last sample ends a packet.
WHOLE_MS = 120
QUIET_MS = 4_800
# Cuts the silence around the words.
TRIM = ["silence", "1", "0.05", "1%", "reverse", "silence", "1", "0.05", "1%", "reverse"]


class Sound:
    """Packets of one codec and length: `speech` and `quiet`."""

    def __init__(self, folder, codec, packet_ms):
        self.packet_ms = packet_ms
        self.speech, self.quiet = (
            read_packets(pathlib.Path(folder) / name, codec, packet_ms)
            for name in ("speech", "quiet"))


def make(folder):
    """Writes the sounds: samples as WAV, and Opus in Ogg with packets of each length."""
    raw = ["-V1", "-t", "raw", "-r", "16000", "-e", "signed", "-b", "16", "-c", "1", RECORDING]
    sox(*raw, "-r", RATE, folder / "words.wav", *TRIM)
    sox("-D", "-n", "-r", RATE, "-b", "16", "-c", "1", folder / "quiet.wav",
        "synth", QUIET_MS / 1000, "whitenoise", "vol", "-63dB")
    words, noise = read_wave(folder / "words.wav"), read_wave(folder / "quiet.wav")
    whole = RATE * WHOLE_MS // 1000
    words = array.array("h", bytes(2 * (-len(words) % whole))) + words
    with wave.open(str(folder / "speech.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(array.array("h", (
            max(-32768, min(32767, sample + noise[index % len(noise)]))
            for index, sample in enumerate(words))).tobytes())
    for name in ("speech", "quiet"):
        for packet_ms in PACKETS_MS:
            subprocess.run(
                ["opusenc", "--quiet", "--speech", "--bitrate", str(BITRATE), "--comp",
                 str(COMPLEXITY), "--framesize", str(packet_ms), folder / f"{name}.wav",
                 folder / f"{name}-{packet_ms}.opus"], check=True)
    return folder


def sox(*arguments):
    subprocess.run(["sox", *map(str, arguments)], check=True)


def read_wave(path):
    with wave.open(str(path)) as file:
        return array.array("h", file.readframes(file.getnframes()))


def read_packets(path, codec, packet_ms):
    if codec == "opus":
        return ogg_packets(path.with_name(f"{path.name}-{packet_ms}.opus").read_bytes())
    samples, size = read_wave(path.with_suffix(".wav")), RATE * packet_ms // 1000
    return [samples[start : start + size].tobytes()
            for start in range(0, len(samples) - size + 1, size)]


def ogg_packets(data):
    """The packets of an Ogg file (RFC 3533) without the two headers of Opus."""
    packets, packet, place = [], b"", 0
    while place < len(data):
        count = data[place + 26]
        sizes, place = data[place + 27 : place + 27 + count], place + 27 + count
        for size in sizes:
            packet += data[place : place + size]
            place += size
            if size < 255:
                packets.append(packet)
                packet = b""
    return packets[2:]
