"""Counts what a typed turn costs a server in user space: instructions by callgrind, so that several
builds or settings can be compared on a busy machine. A run of N turns is subtracted from one of 2N. The
model is `parley-load model`: 20 deltas, 20 ms apart. With --turns 4 --tokens 800 --rate 200, a turn is
its deltas and little else, each in a tick of its own.

    .venv-tests/bin/python LoadTests/peers/text_turn.py before=BINARY after="BINARY --records FILE"

Words behind the binary are further arguments for `parley serve`. The shard is the thread of the event
loop; records, for example, are written by another. Options: --turns 40 --tokens 20 --rate 50. Needs valgrind, a release build of parley-load, and the
Python environment of `make test-clients`."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.request

from websockets.sync.client import connect

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARLEY, MODEL = 19_280, 19_281
# A function that no thread but a shard's calls.
LOOP = "5ShardC11flushWrites"


def talk(count):
    """Asks so many typed turns, one after the other; the items go, so that all cost alike."""
    url = f"ws://127.0.0.1:{PARLEY}/v1/realtime?model=scripted"
    with connect(url, open_timeout=300, ping_timeout=None) as link:
        link.recv()
        session = {"type": "realtime", "output_modalities": ["text"]}
        link.send(json.dumps({"type": "session.update", "session": session}))
        for number in range(count):
            content = [{"type": "input_text", "text": "What is the weather like today?"}]
            item = {
                "id": f"item_{number}", "type": "message", "role": "user", "content": content}
            link.send(json.dumps({"type": "conversation.item.create", "item": item}))
            link.send(json.dumps({"type": "response.create"}))
            while (event := json.loads(link.recv()))["type"] != "response.done":
                assert event["type"] != "error", event
            assert event["response"]["status"] == "completed", event
            for made in [item, *event["response"]["output"]]:
                link.send(json.dumps({"type": "conversation.item.delete", "item_id": made["id"]}))


def instructions(binary, turns, arguments):
    """Instructions of a server in its whole life with so many turns: of its shard, and of all threads."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "callgrind"
        stripped = pathlib.Path(folder) / "parley"
        # valgrind cannot read the debug information of a static Swift binary.
        subprocess.run(["strip", "--strip-debug", "-o", stripped, binary], check=True)
        server = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--separate-threads=yes",
             f"--callgrind-out-file={output}", stripped, "serve", "--port", str(PARLEY), "--shards",
             "1", "--worker-threads", "1", "--log-level", "error", "--llm-url",
             f"http://127.0.0.1:{MODEL}/v1", *arguments],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(f"http://127.0.0.1:{PARLEY}/healthz")
            talk(turns)
        finally:
            server.terminate()
            server.wait()
        threads = [each.read_text() for each in pathlib.Path(folder).glob("callgrind-*")]
        counts = {text: int(re.search(r"^totals: (\d+)", text, re.M).group(1)) for text in threads}
        shard, = (count for text, count in counts.items() if LOOP in text)
        return shard, sum(counts.values())


def wait_for(url):
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=60).close()
            return
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="+", metavar='NAME="BINARY ARGUMENTS"')
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=20, help="deltas of a turn")
    parser.add_argument("--rate", type=int, default=50, help="deltas a second")
    options = parser.parse_args()
    load = os.environ.get("PARLEY_LOAD", ROOT / ".build/release/parley-load")
    model = subprocess.Popen(
        [load, "model", "--port", str(MODEL), "--tokens", str(options.tokens), "--rate",
         str(options.rate), "--first", "20", "--quiet"])
    print("| server | instructions of the shard a turn | | of all threads | |\n|---|---|---|---|---|")
    first = None
    try:
        for text in options.servers:
            name, command = text.split("=", 1)
            binary, *arguments = command.split()
            once, twice = (
                instructions(binary, turns, arguments) for turns in (options.turns, 2 * options.turns))
            costs = [(more - less) / options.turns for less, more in zip(once, twice)]
            first = first or costs
            cells = " | ".join(
                f"{cost:,.0f} | {cost / base - 1:+.1%}" for cost, base in zip(costs, first))
            print(f"| {name} | {cells} |", flush=True)
    finally:
        model.kill()


if __name__ == "__main__":
    main()
