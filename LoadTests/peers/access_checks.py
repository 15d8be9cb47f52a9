"""Counts Swift's run-time checks for overlapping accesses by property: what an echoed message and a typed
turn would pay for each property without `@exclusivity(unchecked)`. In a copy of the repository:

    grep -rl '@exclusivity' Sources | xargs sed -i 's/@exclusivity(unchecked) //' && make build
    .venv-tests/bin/python LoadTests/peers/access_checks.py .build/release/parley

gdb stops at each check; the class and the field of its address come from Swift's reflection metadata.
Messages of 20 B go one by one over one connection, so that each has a tick of its own. Turns are those of
text_turn.py, whose model is slower here because gdb is slow. A run is subtracted from one of twice as many.
Needs gdb, a release build of parley-load, and the Python environment of `make test-clients`."""

import collections
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

try:
    import gdb
except ImportError:
    gdb = None
    import text_turn
    from websockets.sync.client import connect

# Instructions of a check that ends at once, and of one that lasts, with its end, by callgrind.
INSTANT, LASTING = 68, 97
LASTS = 0x20


def inside_gdb():
    """Counts the checks of the attached server until it ends."""
    server = gdb.selected_inferior()
    counts = collections.Counter()

    def number(form, address):
        return struct.unpack(form, server.read_memory(address, struct.calcsize(form)).tobytes())[0]

    def text(address):
        return gdb.Value(address).cast(gdb.lookup_type("char").pointer()).string()

    def target(address):
        return address + number("<i", address)

    def field(start, address):
        """The class and the field, if an object of a class with metadata begins at `start`."""
        metadata = number("<Q", start)
        if not 4_096 < metadata < 1 << 47 or metadata % 8:
            return None
        if not address - start < number("<I", metadata + 24) < 1 << 16:
            return None
        description = number("<Q", metadata + 40)
        if number("<I", description) & 0x1F != 16:
            return None
        fields, count, vector = (
            target(description + 16), number("<I", description + 36), number("<I", description + 40))
        offsets = [number("<Q", metadata + 8 * (vector + index)) for index in range(count)]
        index = max(i for i in range(count) if offsets[i] <= address - start)
        return f"{text(target(description + 8))}.{text(target(fields + 16 + 12 * index + 8))}"

    def name(address):
        for start in range(address & ~7, (address & ~7) - 8_192, -8):
            try:
                if found := field(start, address):
                    return found
            except (gdb.MemoryError, gdb.error, UnicodeDecodeError, ValueError, OverflowError):
                continue
        return "?"

    names = {}

    class Check(gdb.Breakpoint):
        def stop(self):
            address, flags = (int(gdb.parse_and_eval(f"(unsigned long)${r}")) for r in ("rdi", "rdx"))
            place = gdb.newest_frame().older().pc()
            names[place] = names.get(place) or name(address)
            counts[names[place]] += LASTING if flags & LASTS else INSTANT
            return False

    Check("swift_beginAccess")
    gdb.execute("handle SIGTERM nostop noprint pass")
    pathlib.Path(os.environ["READY"]).touch()
    gdb.execute("continue")
    pathlib.Path(os.environ["COUNTS"]).write_text(json.dumps(counts))


def count(binary, work):
    """Instructions of the checks by property, in a server that does some work."""
    with tempfile.TemporaryDirectory() as folder:
        ready, counts = (pathlib.Path(folder) / name for name in ("ready", "counts"))
        server = subprocess.Popen(
            [binary, "serve", "--port", str(text_turn.PARLEY), "--shards", "1", "--worker-threads", "1",
             "--log-level", "error", "--debug-echo", "true", "--llm-url",
             f"http://127.0.0.1:{text_turn.MODEL}/v1"],
            cwd=text_turn.ROOT, stdout=subprocess.DEVNULL)
        text_turn.wait_for(f"http://127.0.0.1:{text_turn.PARLEY}/healthz")
        debugger = subprocess.Popen(
            ["gdb", "-q", "-batch", "-p", str(server.pid), "-x", __file__],
            env={**os.environ, "READY": str(ready), "COUNTS": str(counts)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not ready.exists():
            time.sleep(0.1)
        work()
        server.terminate()
        server.wait()
        debugger.wait()
        return collections.Counter(json.loads(counts.read_text()))


def echo(messages):
    with connect(f"ws://127.0.0.1:{text_turn.PARLEY}/debug/echo", compression=None) as link:
        for _ in range(messages):
            link.send(bytes(20))
            link.recv()


def main():
    model = subprocess.Popen(
        [text_turn.ROOT / ".build/release/parley-load", "model", "--port", str(text_turn.MODEL),
         "--tokens", "20", "--rate", "10", "--first", "20", "--quiet"])
    costs = {}
    try:
        for work, runs in ((echo, 400), (text_turn.talk, 8)):
            once, twice = (count(sys.argv[1], lambda: work(times * runs)) for times in (1, 2))
            for name in twice:
                costs.setdefault(name, {})[work] = (twice[name] - once[name]) / runs
    finally:
        model.kill()
    print("| property | an echo | a typed turn |\n|---|---|---|")
    for name, cost in sorted(costs.items(), key=lambda each: -max(each[1].values())):
        echoed, turn = cost.get(echo, 0), cost.get(text_turn.talk, 0)
        if echoed >= 1 or turn >= 100:
            print(f"| {name} | {echoed:,.0f} | {turn:,.0f} |")


if gdb:
    inside_gdb()
else:
    main()
