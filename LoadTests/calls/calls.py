"""What telephone calls cost: a server, callers of `parley call` that talk with it as people do, and a
row of figures.

    scripts/calls.sh [--calls 500] [--carrier twilio] [--embedded]

A caller asks a question of 2.4 s, and is quiet for as long as the reply takes and eight seconds more;
then it asks again. The callers begin one after the other, so that they do not all speak at once. Replies
are spoken by the embedded voice. Questions are written down by a service that answers at once, because
the embedded recogniser costs more than all the rest; `--embedded` measures with it. The callers run on
the same machine."""

import argparse
import asyncio
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import wave

from aiohttp import web

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/clients"))

from parley_server import ParleyServer  # noqa: E402
from recordings import DATA, convert  # noqa: E402

QUESTION = "Go forward ten meters."
PAUSE = 8
# So many processes of callers, which begin at even distances in one exchange.
GROUPS = 20
MEASURED = 30


class Transcriber:
    """A service with OpenAI's `/audio/transcriptions` that hears the same in all audio."""

    def __enter__(self):
        started = threading.Event()
        threading.Thread(target=self.run, args=(started,), daemon=True).start()
        started.wait()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)

    def run(self, started):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        started.set()
        self.loop.run_forever()

    async def listen(self):
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/v1/audio/transcriptions", self.transcribe)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"

    async def transcribe(self, request):
        await request.read()
        return web.json_response({"text": QUESTION})


def conversation(folder, seconds):
    """A WAV file of questions and pauses that lasts so long at least, and the seconds of an exchange."""
    question = convert(DATA / "goforward.raw", folder / "question.wav")
    with wave.open(str(question)) as file:
        parameters, speech = file.getparams(), file.readframes(file.getnframes())
    exchange = speech + bytes(2 * parameters.framerate * PAUSE)
    length = len(exchange) / 2 / parameters.framerate
    path = folder / "conversation.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams(parameters)
        file.writeframes(exchange * round(seconds / length + 0.5))
    return path, length


class Reading:
    """The server's counters at a moment."""

    def __init__(self, server):
        self.at = time.monotonic()
        with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        # User and system time of all threads.
        self.processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        page = server.get("/metrics")[2].decode()
        self.calls = self.sum(page, "parley_calls")
        self.responses = self.sum(page, "parley_responses_total", 'status="completed"')
        self.lag = {}
        for bound, count in re.findall(
                r'^parley_event_loop_lag_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\d+)', page, re.M):
            self.lag[float(bound)] = self.lag.get(float(bound), 0) + int(count)

    def sum(self, page, name, label=""):
        return sum(
            float(line.split()[-1]) for line in page.splitlines()
            if re.match(rf"{name}[ {{]", line) and label in line)


def lag_bound(before, after):
    """The bound of the bucket that 99% of the ticks between are within, in ms."""
    counts = {bound: after.lag[bound] - before.lag[bound] for bound in sorted(after.lag)}
    total = max(counts.values())
    return next(bound for bound, count in counts.items() if count >= 0.99 * total) * 1000


def measure(options, folder):
    wav, exchange = conversation(folder, talking_seconds())
    with Transcriber() as transcriber:
        heard = [] if options.embedded else ["--stt-url", transcriber.url, "--stt-model", "constant"]
        with ParleyServer(
                "--telephone", options.carrier, "--max-sessions", "100000", *heard, *options.options
        ) as server:
            url = f"ws://127.0.0.1:{server.port}"
            call = [server.arguments[0], "call", "--url", url, "--carrier", options.carrier]
            # The first call loads the models.
            question = folder / "question.wav"
            subprocess.run([*call, "--wav", question], check=True, capture_output=True)
            resident = server.resident_bytes()
            callers = []
            groups = min(GROUPS, options.calls)
            for group in range(groups):
                count = options.calls // groups + (group < options.calls % groups)
                callers.append(subprocess.Popen(
                    [*call, "--wav", wav, "--calls", str(count), "--patience", "120"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                time.sleep(exchange / groups)
            time.sleep(exchange)
            before = Reading(server)
            memory = (server.resident_bytes() - resident) / options.calls
            time.sleep(MEASURED)
            after = Reading(server)
            for each in callers:
                each.kill()
                each.wait()
    seconds = after.at - before.at
    wanted = options.calls * seconds / exchange
    return {
        "calls": f"{after.calls:.0f} of {options.carrier}",
        "transcripts": "embedded" if options.embedded else "by a service",
        "replies, of questions": f"{(after.responses - before.responses) / wanted:.0%}",
        "CPU of a core, a call": f"{(after.processor - before.processor) / seconds / after.calls:.2%}",
        "memory a call": f"{memory / 1024:.0f} KiB",
        "event-loop lag p99": f"≤ {lag_bound(before, after):.1f} ms",
    }


def talking_seconds():
    """Seconds that a caller talks: until all have begun, one exchange, and the measurement."""
    return 2 * (PAUSE + 3) + MEASURED + 20


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--carrier", default="twilio")
    parser.add_argument("--embedded", action="store_true", help="transcripts by the embedded recogniser")
    parser.add_argument("options", nargs="*", help="of the server, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options, pathlib.Path(folder))
    print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}\n| {' | '.join(row.values())} |")


if __name__ == "__main__":
    main()
