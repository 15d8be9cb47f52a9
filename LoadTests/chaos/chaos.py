"""What callers notice of crashes, restarts and lost networks: conversations over a cluster, one trouble
after another, one table.

    scripts/chaos.sh [--conversations 500] [--cases kill,roll,…] [--rounds 1]

Each row has a cluster of its own (scripts/cluster.sh, three nodes in network namespaces, which takes
root). Three fifths of the callers type, a fifth calls tools, and the others hear speech; some of them
speak. All hold turns of some seconds with pauses between them. Of 24 words that a reply has, each is
followed to the conversation's items, and the milliseconds of a spoken reply are compared with those of
a reply that nothing disturbed."""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "Tests/clients")]

from account import Account  # noqa: E402
from caller import Caller  # noqa: E402
from recordings import goforward  # noqa: E402

SHARES = {"typed": 0.6, "tools": 0.2, "spoken": 0.16, "speech": 0.04}
STARTING, QUIET, AFTER = 6, 14, 25
# Polls of the session lists in a row that show a session at two nodes before it counts: a node that
# was cut off learns of its loss from the store.
LOOKS = 4


# Processes of workers, and the turns that each takes at a time: together more than callers wait at once.
WORKERS, JOBS = 4, 75


class Cluster:
    """scripts/cluster.sh, and the model that its nodes ask: a service, or workers of a Redis stream."""

    def __init__(self, port, options, nodes=3, has_workers=False):
        self.port, self.options, self.nodes = port, options, nodes
        self.environment = os.environ | {
            "CLUSTER_PORT": str(port), "CLUSTER_ISOLATED": "1", "CLUSTER_DETACHED": "1",
            "CLUSTER_PROMETHEUS": "0", "CLUSTER_NODES": str(nodes),
        }
        self.state = ROOT / f".build/cluster/{port}"
        # As in cluster.sh.
        self.network = f"198.18.{port % 256}"
        self.model = None
        self.has_workers, self.workers = has_workers, []

    def do(self, *arguments):
        done = subprocess.run(
            [ROOT / "scripts/cluster.sh", *arguments], env=self.environment, check=False,
            capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"cluster.sh {' '.join(arguments)}: {done.stderr}{done.stdout}")

    def __enter__(self):
        self.do("down")
        self.redis = f"redis://{self.network}.1:{self.port + 10}"
        model = ["--llm", self.redis, "--llm-kind", "redis-stream"] if self.has_workers else [
            "--llm", f"http://{self.network}.1:{self.port + 13}/v1"]
        self.do("up", *model, "--model", "words", *self.options)
        self.key = (self.state / "key").read_text().strip()
        if self.has_workers:
            for _ in range(WORKERS):
                self.start_worker()
            return self
        self.model = subprocess.Popen(
            [sys.executable, HERE / "numbered_model.py", f"{self.network}.1", str(self.port + 13)])
        while self.get(f"http://{self.network}.1:{self.port + 13}/runs") is None:
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        for process in [self.model, *self.workers]:
            if process:
                process.kill()
                process.wait()
        self.do("down")

    def start_worker(self):
        self.workers.append(subprocess.Popen(
            [sys.executable, HERE / "numbered_worker.py", self.redis, "--jobs", str(JOBS)]))

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def kill(self, number):
        """SIGKILL, at once."""
        os.kill(int((self.state / f"node{number}.pid").read_text().split()[0]), signal.SIGKILL)

    def get(self, url, timeout=2):
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.key}"})
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        return None

    def sessions(self, number):
        """The ids of a node's sessions that have a client; None where it does not answer."""
        page = self.get(
            f"http://{self.network}.1{number}:{self.port + number}/admin/sessions?scope=node&limit=1000")
        return page and {
            each["id"] for each in page["data"] if each["state"] not in ("connection", "detached")}

    def runs(self):
        """How often the model was asked for each turn."""
        return self.get(f"http://{self.network}.1:{self.port + 13}/runs") or {}


# MARK: The troubles


async def kill(cluster, callers):
    """SIGKILL; the node is back after 5 s."""
    cluster.kill(2)
    await asyncio.sleep(5)
    await asyncio.to_thread(cluster.do, "start", "2")


async def roll(cluster, callers):
    """All three nodes, one after another."""
    await asyncio.to_thread(cluster.do, "roll")


async def reconnect(cluster, callers):
    """Two fifths of the connections break, and the client is back within a millisecond."""
    for caller in drawn(callers, 0.4):
        caller.link.abort()
        await asyncio.sleep(0.005)


async def two(cluster, callers):
    """A fifth of the handles is used by two more clients at once."""
    await asyncio.gather(*(caller.fight() for caller in drawn(callers, 0.2)))


async def redis_stops(cluster, callers):
    """SIGSTOP for 10 s; nothing else happens."""
    cluster.do("redis", "pause")
    await asyncio.sleep(10)
    cluster.do("redis", "resume")


async def redis_stops_and_connections_break(cluster, callers):
    """SIGSTOP for 10 s, meanwhile a tenth of the connections breaks."""
    cluster.do("redis", "pause")
    await asyncio.sleep(3)
    for caller in drawn(callers, 0.1):
        caller.link.abort()
    await asyncio.sleep(7)
    cluster.do("redis", "resume")


async def redis_empty(cluster, callers):
    """Killed, and back without its data after 10 s; then a tenth of the connections breaks."""
    cluster.do("redis", "kill")
    await asyncio.sleep(10)
    cluster.do("redis", "start")
    await asyncio.sleep(4)
    for caller in drawn(callers, 0.1):
        caller.link.abort()


async def redis_empty_then_kill(cluster, callers):
    """Killed, and back without its data after 1 s; 8 s later a node is killed."""
    cluster.do("redis", "kill")
    await asyncio.sleep(1)
    cluster.do("redis", "start")
    await asyncio.sleep(8)
    await kill(cluster, callers)


async def cut(cluster, callers):
    """A node without any network for 15 s. Its callers count from the cut on, which no one tells
    them; HAProxy notices after 4 s."""
    cluster.do("cut", "3")
    now = time.monotonic()
    links = {
        caller: caller.link for caller in callers
        if caller.link and caller.link.served_by == "node3"}
    for caller in links:
        caller.note_loss(now)
    await asyncio.sleep(15)
    cluster.do("heal", "3")
    for caller, link in links.items():
        if caller.link is link and link.code is None:
            caller.note_survival()


async def workers(cluster, callers):
    """SIGKILL for two of the four workers; two others start after 3 s."""
    for process in cluster.workers[:2]:
        process.kill()
    await asyncio.sleep(3)
    for _ in range(2):
        cluster.start_worker()


async def nothing(cluster, callers):
    """The same callers without any trouble."""
    await asyncio.sleep(5)


CASES = {
    "nothing": ("nothing", nothing),
    "reconnect": ("40% of the connections break, back at once", reconnect),
    "two": ("two more clients with the same handle", two),
    "kill": ("a node is killed", kill),
    "roll": ("rolling restart of all nodes", roll),
    "cut": ("a node is cut off for 15 s", cut),
    "redis-stop": ("Redis stops for 10 s", redis_stops),
    "redis-stop-break": (
        "Redis stops for 10 s, 10% of the connections break", redis_stops_and_connections_break),
    "redis-empty": ("Redis is back empty, 10% of the connections break", redis_empty),
    "redis-empty-kill": ("Redis is back empty, then a node is killed", redis_empty_then_kill),
    "workers": ("two of four workers of a Redis stream are killed", workers),
}


def drawn(callers, share):
    """A share of the callers that are connected."""
    connected = [each for each in callers if each.link and each.lost_at is None]
    return random.Random(7).sample(connected, round(share * len(connected)))


# MARK: A run


async def watch_owners(cluster, account):
    """Looks for sessions that two nodes have at once."""
    seen = {}
    while True:
        lists = await asyncio.gather(
            *(asyncio.to_thread(cluster.sessions, number) for number in range(1, 1 + cluster.nodes)))
        known = [each for each in lists if each is not None]
        twice = {each for one in known for each in one if sum(each in other for other in known) > 1}
        seen = {each: seen.get(each, 0) + 1 for each in twice}
        account.counts["owned twice"] += sum(count == LOOKS for count in seen.values())
        await asyncio.sleep(1)


async def run_case(options, cluster, trouble):
    account = Account()
    speech = goforward()
    kinds = [kind for kind, share in SHARES.items()
             for _ in range(round(share * options.conversations))]
    end = time.monotonic() + STARTING + QUIET + AFTER
    callers = [
        Caller(f"c{index}", kind, cluster.url, cluster.key, account, speech)
        for index, kind in enumerate(kinds)]
    tasks = []
    for caller in callers:
        tasks.append(asyncio.create_task(caller.run(lambda: end)))
        await asyncio.sleep(STARTING / len(callers))
    watch = asyncio.create_task(watch_owners(cluster, account))
    await asyncio.sleep(QUIET)
    began = time.monotonic()
    await trouble(cluster, callers)
    end = time.monotonic() + AFTER
    await asyncio.gather(*tasks)
    watch.cancel()
    runs = {} if cluster.has_workers else await asyncio.to_thread(cluster.runs)
    account.counts["turns run again"] = sum(count - 1 for count in runs.values())
    for turn in account.turns:
        account.notes[f"{turn.kind} {turn.status}"] += 1
    account.notes["seconds"] = round(time.monotonic() - began)
    return account


def run(options):
    titles = None
    for name in options.cases.split(","):
        label, trouble = CASES[name]
        with Cluster(
            options.port, options.options, options.nodes, trouble is workers
        ) as cluster:
            account = asyncio.run(run_case(options, cluster, trouble))
        figures = account.summary()
        if titles is None:
            titles = list(figures)
            print(f"| trouble | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}")
        row = [f"{each:,}" if isinstance(each, int) else each for each in figures.values()]
        print(f"| {label} | {' | '.join(row)} |", flush=True)
        if options.notes:
            print({**account.counts}, {**account.notes}, file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--port", type=int, default=8700, help="the first of 20 ports")
    parser.add_argument("--nodes", type=int, default=3, help="one node: only what stays in a process")
    parser.add_argument("--notes", action="store_true", help="all counts, on standard error")
    parser.add_argument("options", nargs="*", help="of each node, behind --")
    run(parser.parse_args())
