"""The audio of a client's microphone, packet by packet: recordings, computed noises, and the reply
from the loudspeaker. The same sounds as in Tests/ConversationTests."""

import array
import ctypes
import ctypes.util
import functools
import math
import pathlib
import subprocess

import yaml

RATE = 24000
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "Fixtures"
RECORDINGS = yaml.safe_load((FIXTURES / "recordings.yaml").read_text(encoding="utf-8"))
# The level of every sound: RMS over its whole length, in dB of full scale.
LEVEL = -26


def levelled(samples, gain):
    """Samples normalised to the common level, plus `gain` dB; full scale is 1."""
    rms = math.sqrt(sum(sample * sample for sample in samples) / max(1, len(samples)))
    factor = 10 ** ((LEVEL + gain) / 20) / rms if rms else 0
    return array.array("f", (sample * factor for sample in samples))


@functools.cache
def recording(name, gain=0):
    """A recording of Fixtures/recordings.yaml."""
    path = RECORDINGS[name]["file"]
    raw = ["-t", "raw", "-r", "16000", "-e", "signed", "-b", "16", "-c", "1"]
    source = [*(raw if path.endswith(".raw") else []), path]
    target = ["-t", "raw", "-r", str(RATE), "-e", "signed", "-b", "16", "-c", "1", "-"]
    done = subprocess.run(["sox", *source, *target], check=True, capture_output=True)
    samples = array.array("h", done.stdout)
    return levelled([sample / 32768 for sample in samples], gain)


def white_noise():
    """Pseudo-random numbers in -1…1, the same in every language."""
    state = 7
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        yield (state >> 40) / 2**23 - 1


def pink_noise():
    """White noise filtered by Paul Kellet's three poles."""
    low = middle = high = 0.0
    for white in white_noise():
        low = 0.99765 * low + white * 0.0990460
        middle = 0.96300 * middle + white * 0.2965164
        high = 0.57000 * high + white * 1.0526913
        yield low + middle + high + white * 0.1848


@functools.cache
def noise(name, milliseconds, gain=0):
    """`pink`, `beep`, `click` or `cough`."""
    count = RATE * milliseconds // 1000
    if name == "pink":
        samples = [value for _, value in zip(range(count), pink_noise())]
    elif name == "beep":
        samples = [
            math.sin(2 * math.pi * (index % 24) / 24) if index % 12000 < 4800 else 0.0
            for index in range(count)
        ]
    elif name == "click":
        samples = [
            value * math.exp(-(index % 6000) / 24)
            for index, value in zip(range(count), white_noise())
        ]
    elif name == "cough":
        samples = [
            value * math.exp(-(index % 4800) / 1200)
            for index, value in zip(range(count), pink_noise())
        ]
    else:
        raise ValueError(f"no noise is called {name}")
    return levelled(samples, gain)


def sound(action):
    """The samples of an action in a client's timeline; None if it has no sound."""
    gain = action.get("gain_db", 0)
    if "noise" in action:
        return noise(action["noise"], action.get("for", 1000), gain)
    if "speak" not in action:
        return None
    samples = recording(action["speak"], gain)
    start, end = action.get("cut", (0, len(samples) * 1000 // RATE))
    return samples[start * RATE // 1000 : end * RATE // 1000]


class OpusEncoder:
    """libopus for speech at 24 kb/s."""

    def __init__(self):
        self.library = ctypes.CDLL(ctypes.util.find_library("opus"))
        self.library.opus_encoder_create.restype = ctypes.c_void_p
        voip, failure = 2048, ctypes.c_int()
        self.state = ctypes.c_void_p(
            self.library.opus_encoder_create(RATE, 1, voip, ctypes.byref(failure))
        )
        set_bitrate, set_complexity = 4002, 4010
        self.library.opus_encoder_ctl(self.state, set_bitrate, ctypes.c_int(24000))
        self.library.opus_encoder_ctl(self.state, set_complexity, ctypes.c_int(5))

    def encode(self, samples):
        packet = ctypes.create_string_buffer(4000)
        address = (ctypes.c_int16 * len(samples)).from_buffer(samples)
        count = self.library.opus_encode(self.state, address, len(samples), packet, 4000)
        if count < 0:
            raise RuntimeError(f"libopus refuses with {count}")
        return packet.raw[:count]

    def close(self):
        self.library.opus_encoder_destroy(self.state)


class Microphone:
    """Mixes sounds and encodes them in the session's input format."""

    def __init__(self, description):
        self.packet_ms = description.get("packet_ms", 20)
        self.lost = description.get("loses", [])
        self.echo = description.get("echo")
        self.numbered = description.get("numbered", False)
        self.encoder = OpusEncoder() if description.get("format") == "opus" else None
        self.sounds = []
        self.packets = 0

    @property
    def position(self):
        """Start of the next packet, in milliseconds."""
        return self.packets * self.packet_ms

    def place(self, samples, milliseconds):
        """Adds a sound and returns its start. If that time has passed, it starts with the next
        packet, so that none of it is lost on a slow machine."""
        begin = max(round(milliseconds), self.position)
        self.sounds.append((begin * RATE // 1000, samples))
        return begin

    def next_packet(self):
        """The next packet as a binary message; None: it is lost in transit."""
        count = self.packet_ms * RATE // 1000
        start = self.position * RATE // 1000
        self.sounds = [item for item in self.sounds if item[0] + len(item[1]) > start]
        mix = [0.0] * count if self.sounds else None
        for place, samples in self.sounds:
            first = max(start, place)
            for index in range(first, min(start + count, place + len(samples))):
                mix[index - start] += samples[index - place]
        heard = array.array("h", bytes(2 * count)) if mix is None else array.array(
            "h", (max(-32768, min(32767, round(s * 32767))) for s in mix))
        packet = self.encoder.encode(heard) if self.encoder else heard.tobytes()
        number = self.packets
        self.packets += 1
        is_lost = any(first <= number < first + amount for first, amount in self.lost)
        prefix = (number % 65536).to_bytes(2, "little") if self.numbered else b""
        return None if is_lost else prefix + packet


class Loudspeaker:
    """Plays reply audio as it arrives, and knows how much of an item was played."""

    def __init__(self, latency=0):
        self.latency = latency
        self.queue = []
        self.end = 0.0
        self.item_id = None
        self.received = 0

    def play(self, samples, item_id, now):
        if item_id != self.item_id:
            self.item_id, self.received = item_id, 0
        milliseconds = len(samples) * 1000 // RATE
        start = max(self.end, now + self.latency)
        self.queue.append((start, samples))
        self.end = start + milliseconds
        self.received += milliseconds

    def heard(self, now):
        """How much of the last item was played, in milliseconds."""
        return max(0, int(self.received - max(0, self.end - now)))

    def stop(self, now):
        """Stops for the user's speech: audio that was not played is dropped."""
        self.received = self.heard(now)
        self.end = min(self.end, now)
        self.queue = [
            (start, samples[: round((now - start) * RATE / 1000)])
            for start, samples in self.queue if start < now
        ]

    def played(self, start, end):
        """The samples played between two times; full scale is 1."""
        origin = round(start * RATE / 1000)
        heard = array.array("f", bytes(4 * (round(end * RATE / 1000) - origin)))
        for place, samples in self.queue:
            offset = round(place * RATE / 1000) - origin
            for index in range(max(0, offset), min(len(heard), offset + len(samples))):
                heard[index] += samples[index - offset] / 32768
        return heard
