"""What a bad network costs a voice conversation, for Opus and for samples (PCM): tables in Markdown.

    scripts/network.sh [--parts codecs,levers,buffer,page] [--seconds 60] [--repeat 2] [--at-once 12]

Each cell is a caller in a network namespace of its own (caller.py), which talks to a server in another one
over an emulated link (links.py), both ways with the same conditions. Columns:

voice → server   from the moment at which a sound enters the microphone to the arrival of its packet at the
                 server's kernel, in ms: the user's mouth to the server's ear.
reply → ear      for each tenth of a second that is heard of a reply: how much later it is heard than at an
                 ear in the server, which hears the reply's first byte as it leaves and every sample on time.
turn             median of what the network adds to the answer of a spoken turn: the way of the packet in
                 which the server sees that the user has ended (500 ms after the last word), and the way from
                 the reply's first byte to its first sound at the ear. The server's own time is not in it.
gaps             silences in the middle of a reply, in a minute of it, and the seconds that they last.
skipped          how much of the reply was dropped on the way, because it was too late.

The listener is the page's own jitter buffer (listen.mjs). `page` measures Chromium with parley.js in such a
namespace instead, to compare."""

import argparse
import asyncio
import collections
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = os.environ.get("PARLEY_BINARY", str(ROOT / ".build/release/parley"))

import sound  # noqa: E402
from links import Conditions, Links  # noqa: E402

FIRST_PORT = 8700
# Cells of a run at most: each has a network of its own.
MOST_CELLS = 250
# How long a caller may take beyond its time: an unanswered turn, and a connection that does not come about.
GRACE = 90
# Silence after which the server ends a turn.
SILENCE = 0.5
BOUNDS = {
    "least": 40, "first": 60, "most": 400, "longestJitter": 400, "decayAfter": 5000, "decayStep": 10,
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """What one caller does, and on which network."""

    conditions: Conditions
    codec: str = "opus"
    packet_ms: int = 20
    options: tuple = ()
    congestion: str = "cubic"


@dataclasses.dataclass
class Call:
    """What a caller has seen, with the times of its bytes on the link."""

    cell: Cell
    result: dict | None
    # (when its first sample was spoken, seconds from there to the server) of each packet that arrived; then
    # how many were dropped or did not arrive.
    voice: list
    missing: int
    # By the item: when its first byte left the server.
    left: dict


# MARK: Running


class Servers:
    """One server for each choice of options, in the namespace of the links."""

    def __init__(self, links):
        self.links, self.ports, self.processes = links, {}, []
        self.logs = ROOT / ".build/network"
        self.logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait()

    def port(self, cell):
        if cell.options not in self.ports:
            self.ports[cell.options] = self.start(cell.options)
        return self.ports[cell.options]

    def start(self, options):
        """Open to everybody: nobody else is in the namespace."""
        port = FIRST_PORT + len(self.ports)
        path = self.logs / f"serve-{port}.log"
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("PARLEY_")} | {"PARLEY_WARM_MODELS": "true"}
        with open(path, "wb") as log:
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", self.links.namespace, BINARY, "serve", "--host", "0.0.0.0",
                 "--port", str(port), "--insecure", *options],
                cwd=ROOT, env=environment, stdout=log, stderr=log))
        while "/metrics" not in path.read_text(encoding="utf-8"):
            if self.processes[-1].poll() is not None:
                raise SystemExit(f"the server did not start: {path.read_text()}")
            time.sleep(0.05)
        return port


async def call(cell, links, servers, folder, seconds, seed):
    """One call over a link of its own."""
    port = servers.port(cell)
    link = links.add(cell.conditions, seed, cell.congestion)
    process = await asyncio.create_subprocess_exec(
        *link.inside(sys.executable, HERE / "caller.py", link.server, port, folder, cell.codec,
                     cell.packet_ms, seconds),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(seconds + GRACE):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        output, errors = b"", b"no end"
    if not output:
        print(f"{cell}: {errors.decode().strip().splitlines()[-1:]}", file=sys.stderr)
        return Call(cell, None, [], 0, {})
    result = json.loads(output)
    voice, missing = [], 0
    for begun, end in result["spoken"]:
        arrived = end and link.up.arrived.at(end)
        if arrived:
            voice.append((begun, arrived - begun))
        else:
            missing += 1
    left = {}
    for audio in result["arrivals"]:
        if audio["item"] not in left:
            left[audio["item"]] = link.down.sent.at(audio["offset"] + 1)
    return Call(cell, result, voice, missing, left)


async def run_cells(cells, arguments, folder):
    """Every cell `repeat` times, some at once: {cell: [Call]}."""
    todo = [(cell, turn) for turn in range(arguments.repeat) for cell in dict.fromkeys(cells)]
    if len(todo) > MOST_CELLS:
        raise SystemExit(f"{len(todo)} calls are more than {MOST_CELLS}: choose fewer --parts")
    calls = collections.defaultdict(list)
    room = asyncio.Semaphore(arguments.at_once)
    done = 0
    with Links() as links, Servers(links) as servers:
        # A server's first turn loads its recogniser.
        await asyncio.gather(*(
            call(Cell(PERFECT, options=options), links, servers, folder, 1, "first")
            for options in {cell.options for cell in cells}))

        async def one(cell, turn):
            nonlocal done
            async with room:
                # A network behaves in the same way for each codec and setting.
                seed = f"{turn} {cell.conditions}"
                calls[cell].append(await call(
                    cell, links, servers, folder, arguments.seconds, seed))
                done += 1
                print(f"\r{done} of {len(todo)} calls", end="", file=sys.stderr)

        await asyncio.gather(*(one(*each) for each in todo))
    print(file=sys.stderr)
    return calls


def listen(calls, bounds=None):
    """What a listener hears of each call, with a jitter buffer of these bounds."""
    asked = {"bounds": BOUNDS | (bounds or {}), "calls": [
        {"arrivals": each.result["arrivals"], "ends": each.result["ends"]} for each in calls]}
    done = subprocess.run(
        ["node", HERE / "listen.mjs"], input=json.dumps(asked), capture_output=True, text=True,
        check=True)
    return json.loads(done.stdout)


# MARK: Measuring


@dataclasses.dataclass
class Figures:
    """What the calls of a cell were like together. Times in seconds; None: nothing to measure."""

    voice: list
    missing: int
    ear: list
    turns: list
    unanswered: int
    heard: float
    gaps: list
    skipped: float


def figures(calls, bounds=None):
    calls = [each for each in calls if each.result]
    found = Figures([], 0, [], [], 0, 0, [], 0)
    for each, heard in zip(calls, listen(calls, bounds), strict=True):
        found.voice += [delay for _, delay in each.voice]
        found.missing += each.missing
        first = {}
        for reply in heard["replies"]:
            first[reply["item"]] = reply["first"]
            found.heard += reply["heardMs"] / 1000
            found.gaps += [gap / 1000 for gap in reply["gaps"]]
            found.skipped += reply["skippedMs"] / 1000
            if left := each.left[reply["item"]]:
                found.ear += [at - left - position / 1000 for position, at in reply["played"]]
        for turn in each.result["turns"]:
            if turn["item"] not in first:
                found.unanswered += 1
            elif turn["spoken"]:
                way = next((delay for begun, delay in each.voice
                            if begun >= turn["asked"] + SILENCE), None)
                left = each.left[turn["item"]]
                if way and left:
                    found.turns.append(way + first[turn["item"]] - left)
    return found


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def ms(values, share):
    return f"{1000 * percentile(values, share):,.0f}" if values else "–"


HEAD = ["voice → server p50 / p95 / max", "not arrived", "turn", "reply → ear p50 / p95",
        "gaps a minute", "silence a minute", "skipped", "no answer"]


def row(found):
    """The columns of HEAD."""
    minutes = found.heard / 60
    packets = len(found.voice) + found.missing
    return [
        f"{ms(found.voice, .5)} / {ms(found.voice, .95)} / {ms(found.voice, 1)}",
        f"{100 * found.missing / packets:.1f}%" if packets else "–",
        ms(found.turns, .5),
        f"{ms(found.ear, .5)} / {ms(found.ear, .95)}",
        f"{len(found.gaps) / minutes:.1f}" if minutes else "–",
        f"{sum(found.gaps) / minutes:.2f} s" if minutes else "–",
        f"{100 * found.skipped / (found.heard + found.skipped):.1f}%" if minutes else "–",
        str(found.unanswered),
    ]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for each in rows:
        print("| " + " | ".join(map(str, each)) + " |")
    print(flush=True)


def network(conditions):
    rate = f"{conditions.rate:,} kb/s" if conditions.rate else "no limit"
    return [f"{conditions.rtt} ms", f"{conditions.loss}%", rate]


# MARK: Parts

PERFECT = Conditions()
RATES = (0, 64)
GRID = [Conditions(rtt, loss, rate) for rate in RATES for rtt in (50, 100, 200)
        for loss in (0, 2, 5)]
# Networks on which settings are compared: of a train, of a hall with far too many telephones, and one as
# narrow as the audio.
COMPARED = [Conditions(100, 2), Conditions(200, 5), Conditions(100, 1, 64)]
LEADS = (100, 250, 1000, 2000)
# A link that is narrower than the samples of a reply: what does not fit must be dropped somewhere.
NARROW = Conditions(100, 0, 256)
BACKLOGS = [(unsent, late) for unsent in (131_072, 16_384) for late in (5000, 1000)]
BUFFERS = [
    {}, {"least": 20, "first": 20}, {"least": 20, "first": 40}, {"least": 60, "first": 100},
    {"least": 100, "first": 200}, {"most": 200}, {"most": 800, "longestJitter": 800},
    {"most": 1500, "longestJitter": 1500},
]


def option(name, value):
    return (f"--{name}", str(value))


def codec_cells():
    return [Cell(each, codec) for each in [PERFECT, *GRID] for codec in ("opus", "pcm")]


def lever_cells():
    cells = [Cell(PERFECT)]
    for each in COMPARED:
        cells += [Cell(each, packet_ms=packet) for packet in sound.PACKETS_MS]
        cells += [Cell(each, options=option("playout-lead-ms", lead)) for lead in LEADS]
        cells += [Cell(each, congestion="bbr")]
    cells += [Cell(NARROW, "pcm", options=backlog_options(*each)) for each in BACKLOGS]
    return cells


def backlog_options(unsent, late):
    return option("max-unsent-socket-bytes", unsent) + option("late-audio-tolerance-ms", late)


def buffer_cells():
    return [Cell(each) for each in [PERFECT, *COMPARED]]


def codecs_table(calls):
    print("Opus against samples, round trip, loss and rate in each direction:\n")
    table(["RTT", "loss", "rate", "codec", *HEAD], [
        [*network(cell.conditions), cell.codec, *row(figures(calls[cell]))]
        for cell in codec_cells()])


def levers_table(calls):
    rows = []
    for each in COMPARED:
        named = [("as it is", Cell(each))]
        named += [(f"packets of {packet} ms", Cell(each, packet_ms=packet))
                  for packet in sound.PACKETS_MS[1:]]
        named += [(f"playout-lead-ms {lead}", Cell(each, options=option("playout-lead-ms", lead)))
                  for lead in LEADS]
        named += [("bbr at the server", Cell(each, congestion="bbr"))]
        rows += [[*network(each), name, *row(figures(calls[cell]))]
                 for name, cell in named]
    print("Settings, with Opus:\n")
    table(["RTT", "loss", "rate", "setting", *HEAD], rows)
    print("What waits at a link that is too narrow for samples:\n")
    table(["max-unsent-socket-bytes", "late-audio-tolerance-ms", *HEAD], [
        [unsent, late, *row(figures(calls[Cell(NARROW, "pcm", options=backlog_options(unsent, late))]))] for unsent, late in BACKLOGS])


def buffer_table(calls):
    print("Bounds of the jitter buffer, over the same arrivals:\n")
    table(["RTT", "loss", "rate", "bounds", *HEAD[2:6]], [
        [*network(cell.conditions), ", ".join(f"{name} {value}" for name, value in bounds.items())
         or "as it is", *row(figures(calls[cell], bounds))[2:6]]
        for cell in buffer_cells() for bounds in BUFFERS])


PARTS = {
    "codecs": (codec_cells, codecs_table), "levers": (lever_cells, levers_table),
    "buffer": (buffer_cells, buffer_table),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="codecs,levers,buffer,page")
    parser.add_argument("--seconds", type=int, default=60, help="of each call")
    parser.add_argument("--repeat", type=int, default=2, help="calls of each cell")
    parser.add_argument("--at-once", type=int, default=12, help="calls at the same time")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS) - {"page"}:
        parser.error(f"no such part: {', '.join(unknown)}")
    print(f"{time.strftime('%Y-%m-%d')}, {' '.join(sys.argv[1:])}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = sound.make(pathlib.Path(name))
        cells = [cell for part in parts if part in PARTS for cell in PARTS[part][0]()]
        if cells:
            calls = asyncio.run(run_cells(cells, arguments, folder))
            for part in parts:
                if part in PARTS:
                    PARTS[part][1](calls)
        if "page" in parts:
            subprocess.run(
                [ROOT / ".venv-tests/bin/python", HERE / "page_calls.py", folder,
                 str(arguments.seconds)], check=True)


if __name__ == "__main__":
    main()
