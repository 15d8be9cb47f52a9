"""What outages cost the records and the webhooks of live conversations: one outage after another, one
table.

    scripts/outages.sh [--conversations 200] [--cases kill,away,…]

Each case has a server of its own with clients that type; each reply is 24 words of a model that takes two
seconds for it. After the outage the clients talk on, then the server is given the time to write and to
send what waits. At the end each conversation, item and turn that a client was shown is looked up in the
records, and each webhook at its receiver."""

import argparse
import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "Tests/clients")]

from parley_server import BINARY, ParleyServer, free_port  # noqa: E402
from postgresql_server import PostgreSQLServer  # noqa: E402
from talker import Talker  # noqa: E402
from tally import tally  # noqa: E402
from webhook_receiver import SECRET, WebhookReceiver  # noqa: E402

STARTING, BEFORE, AFTER = 4, 8, 8
OUTAGE = 20
# Sessions of a server that was killed end 15 s later, by the hand of the next one.
LOST_AFTER = 20
# How long the server may take to write and send what waits. It is no limit of the server's: a case in
# which something waits for longer shows it as lost.
SETTLING = 180
# The file system of the spool, which one case fills.
DISK_BYTES = 256 << 20


class Place:
    """One case: a server, its database and disk, the receiver of its webhooks."""

    def __init__(self, folder, model, has_database):
        self.folder, self.model = folder, model
        self.database = PostgreSQLServer() if has_database else None
        self.receiver = WebhookReceiver()
        self.spool = folder / "disk/records.db"
        self.server, self.port = None, free_port()
        # When the server was killed, or else when the outage began.
        self.fault = None

    def __enter__(self):
        self.resources = contextlib.ExitStack()
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "parley-outages", disk], check=True)
        self.resources.callback(subprocess.run, ["umount", disk], check=True)
        self.resources.enter_context(self.receiver)
        if self.database:
            self.resources.enter_context(self.database)
        self.start()
        return self

    def __exit__(self, *error):
        with contextlib.suppress(ProcessLookupError):
            self.server.__exit__()
        self.resources.close()

    @property
    def records(self):
        return self.database.url if self.database else str(self.spool)

    def start(self):
        """Starts the server, on the port and with the files that it has had."""
        options = ["--records", self.records, "--webhook-url", self.receiver.url]
        if self.database:
            options += ["--records-spool", str(self.spool)]
        self.server = ParleyServer(
            *options, "--llm", self.model, "--model", "words", "--drain-timeout-ms", "3000", port=self.port,
            PARLEY_WEBHOOK_SECRET=SECRET)
        self.server.__enter__()

    def terminate(self):
        """SIGTERM, and waits for the end."""
        self.server.process.terminate()
        self.server.process.wait()

    def kill(self):
        """SIGKILL."""
        self.fault = time.monotonic()
        self.server.process.kill()
        self.server.process.wait()

    def fill(self):
        """Leaves no byte on the spool's disk."""
        with open(self.folder / "disk/ballast", "wb", buffering=0) as ballast, \
                contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(1 << 16))

    def empty(self):
        (self.folder / "disk/ballast").unlink()

    def documents(self):
        """The records of all sessions."""
        sessions = subprocess.run(
            [BINARY, "sessions", "list", "--json", "--limit", "100000", "--records", self.records],
            capture_output=True, text=True, check=True).stdout.splitlines()
        return [json.loads(subprocess.run(
            [BINARY, "sessions", "export", json.loads(line)["id"], "--records", self.records],
            capture_output=True, text=True, check=True).stdout) for line in sessions]

    def is_settled(self):
        """Whether nothing waits to be written or sent."""
        return all(self.server.metric(name) == "0" for name in (
            "parley_sessions", "parley_record_queue_bytes", "parley_record_spooled_sessions",
            "parley_webhooks_waiting"))


# MARK: Outages


async def nothing(place):
    """The same conversations without an outage."""


async def terminated(place):
    await asyncio.to_thread(place.terminate)
    await asyncio.to_thread(place.start)


async def killed(place):
    await asyncio.to_thread(place.kill)
    await asyncio.to_thread(place.start)


async def disk_full(place):
    await asyncio.to_thread(place.fill)
    await asyncio.sleep(OUTAGE)
    place.empty()


async def database_away(place):
    await asyncio.to_thread(place.database.stop)
    await asyncio.sleep(OUTAGE)
    await asyncio.to_thread(place.database.start)


async def database_away_killed(place):
    await asyncio.to_thread(place.database.stop)
    await asyncio.sleep(OUTAGE / 2)
    await killed(place)
    await asyncio.sleep(OUTAGE / 2)
    await asyncio.to_thread(place.database.start)


async def database_away_disk_full(place):
    await asyncio.to_thread(place.database.stop)
    await disk_full(place)
    await asyncio.to_thread(place.database.start)


async def receiver_away(place):
    place.receiver.status = 503
    await asyncio.sleep(OUTAGE)
    place.receiver.status = 200


async def receiver_away_killed(place):
    place.receiver.status = 503
    await asyncio.sleep(OUTAGE / 2)
    await killed(place)
    await asyncio.sleep(OUTAGE / 2)
    place.receiver.status = 200


# name → (label, outage, whether PostgreSQL has the records)
CASES = {
    "nothing": ("nothing (SQLite)", nothing, False),
    "term": ("SIGTERM (SQLite)", terminated, False),
    "kill": ("SIGKILL (SQLite)", killed, False),
    "full": (f"disk full for {OUTAGE} s (SQLite)", disk_full, False),
    "away": (f"PostgreSQL stopped for {OUTAGE} s", database_away, True),
    "pg-term": ("SIGTERM (PostgreSQL)", terminated, True),
    "pg-kill": ("SIGKILL (PostgreSQL)", killed, True),
    "away-kill": (f"PostgreSQL stopped for {OUTAGE} s, SIGKILL between", database_away_killed, True),
    "away-full": (
        f"PostgreSQL stopped, and the spool's disk full for {OUTAGE} s", database_away_disk_full, True),
    "receiver": (f"the receiver answers 503 for {OUTAGE} s", receiver_away, False),
    "receiver-kill": (
        f"the receiver answers 503 for {OUTAGE} s, SIGKILL between", receiver_away_killed, False),
}


# MARK: A run


async def converse(place, outage, conversations):
    """Runs the conversations, and returns what their clients were shown."""
    seen, is_over = {}, asyncio.Event()
    talkers = [
        Talker(f"talker {index}", place.server.realtime_url, seen) for index in range(conversations)]
    tasks = []
    for talker in talkers:
        tasks.append(asyncio.create_task(talker.run(is_over.is_set)))
        await asyncio.sleep(STARTING / conversations)
    await asyncio.sleep(BEFORE)
    place.fault = time.monotonic()
    await outage(place)
    await asyncio.sleep(AFTER)
    is_over.set()
    await asyncio.gather(*tasks)
    return seen


def run_case(options, name, model):
    label, outage, has_database = CASES[name]
    with tempfile.TemporaryDirectory(prefix="parley-outages-", dir="/tmp") as folder:
        with Place(pathlib.Path(folder), model, has_database) as place:
            seen = asyncio.run(converse(place, outage, options.conversations))
            deadline = time.monotonic() + SETTLING
            documents = []
            while time.monotonic() < deadline:
                if time.monotonic() > place.fault + LOST_AFTER and place.is_settled() and (
                        documents := place.documents()) and all(
                        each["ended_at"] for each in documents) and place.is_settled():
                    break
                time.sleep(1)
            events = [body for _, body in place.receiver.events]
            row = tally(seen, documents, events, [key for key, _ in place.receiver.events], place.fault)
    return label, row


def run(options):
    port = free_port()
    model = subprocess.Popen(
        [sys.executable, ROOT / "LoadTests/chaos/numbered_model.py", "127.0.0.1", str(port)])
    titles = None
    try:
        for name in options.cases.split(","):
            label, row = run_case(options, name, f"http://127.0.0.1:{port}/v1")
            if titles is None:
                titles = list(row)
                print(f"| outage | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}")
            cells = [f"{each:,}" if isinstance(each, int) else each for each in row.values()]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)
    finally:
        model.kill()
        model.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    run(parser.parse_args())
