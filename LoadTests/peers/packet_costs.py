"""Shows where the server's time for a packet of speech goes: socket, framing, decoding, analysis,
bookkeeping. `parley-load voice` speaks with many sessions, whose state is cold in the caches, and
`perf` samples the server meanwhile. Needs Debian's linux-perf.

    python3 LoadTests/peers/packet_costs.py

Options: --sessions 200  --seconds 15  --parley .build/release/parley. Prints a table.
"""

import argparse
import collections
import re
import subprocess
import tempfile
import time

PACKETS_A_SECOND = 50
# The first pattern that fits the library and the symbol decides.
PARTS = [
    ("socket: the kernel", r"^\[(kernel|guest)"),
    ("decoding: libopus", r"libopus"),
    ("analysis: voice activity",
     r"dense|(sse2|avx2|avx512|neon)_|VoiceActivity|Spectrum|WindowEnergy|TurnDetector|Prosody"
     r"|SIMD8|libm\.|analyse"),
    ("framing: WebSocket", r"WebSocket|Unmask|FrameHead|parley_mask"),
    ("copying", r"mem(cpy|move|set)|_avx_unaligned"),
    ("socket: reads, writes and the loop's order",
     r"EpollIO|Connection|ReadBuffer|OutputQueue|libc.*(recv|send|epoll|syscall)"),
    ("keeping what was heard", r"PacketLog|HeardAudio|InputAudio|SpeechInput"),
    ("memory and references",
     r"swift_(retain|release|isUnique|arrayDestroy|alloc|dealloc)|Access|SwiftTLS|malloc|free"),
    ("bookkeeping of sessions and clocks", r""),
]


def samples(process, seconds):
    """Counts samples by library and symbol."""
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        subprocess.run(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", "2000", "-p", str(process),
             "-o", data, "--", "sleep", str(seconds)],
            check=True, capture_output=True)
        report = subprocess.run(
            ["perf", "report", "-i", data, "--stdio", "-q", "-g", "none", "-F", "sample,dso,symbol",
             "--field-separator", "\t", "--sort", "dso,symbol"],
            check=True, capture_output=True, text=True).stdout
    found = collections.Counter()
    for line in report.splitlines():
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) >= 3 and fields[0].isdigit():
            found[" ".join(fields[1:])] += int(fields[0])
    return found


def server_of(port):
    """The server that listens on a port, once it does."""
    for _ in range(100):
        listing = subprocess.run(
            ["pgrep", "-f", f"^[^ ]*parley serve .*--port {port} "],
            capture_output=True, text=True).stdout.split()
        if listing:
            return int(listing[0])
        time.sleep(0.1)
    raise SystemExit("the server does not start")


def main():
    parser = argparse.ArgumentParser(description="where a packet's time goes")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--parley", default=".build/release/parley")
    parser.add_argument("--port", type=int, default=9168)
    given = parser.parse_args()
    # Sessions open and settle for some seconds before the round that is sampled.
    load = subprocess.Popen(
        [".build/release/parley-load", "voice", "--sessions", str(given.sessions), "--rounds", "1",
         "--seconds", str(given.seconds + 6), "--turns", "0", "--parley", given.parley,
         "--port", str(given.port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process = server_of(given.port)
    for line in load.stderr:
        if line.startswith("round"):
            break
    time.sleep(3)
    found = samples(process, given.seconds)
    table = load.communicate()[0]
    row = next(line for line in table.splitlines() if line.startswith("| Parley: CPU"))
    milliseconds = float(re.search(r"(\d+\.\d+) \(.*?\) ms", row).group(1))
    packet = 1_000 * milliseconds / PACKETS_A_SECOND

    parts = collections.Counter()
    for name, count in found.items():
        part = next(title for title, pattern in PARTS if re.search(pattern, name))
        parts[part] += count
    total = sum(parts.values())
    print(f"{given.sessions} sessions, {total} samples, {packet:.1f} µs a packet\n")
    print("| part | share | µs a packet |\n|---|---|---|")
    for title, _ in PARTS:
        share = parts[title] / total
        print(f"| {title} | {100 * share:.1f}% | {packet * share:.2f} |")
    print(f"| together | 100% | {packet:.2f} |")


if __name__ == "__main__":
    main()
