"""Measures what one Redis server carries of the session store: what a conversation writes, and what
each operation costs Redis in CPU and a record in memory.

The operations are those of a real server. A recorder between the server and its Redis keeps the
commands of a typed and a spoken conversation; they are then repeated for many sessions. The scripts come
from Sources/Server, and a command of any other script fails the run. Redis is a process of its
own, without files.

    .venv-tests/bin/python LoadTests/peers/store_operations.py [--records 20000] [--rounds 3]

Needs redis-server, sox, pocketsphinx-testdata, the speech models, and the Python environment of `make
test-clients`. PARLEY_TEST_BINARY names another build of Parley. CPU is that of the Redis process
(`INFO cpu`), which depends less on other programs than the rates that this program reaches."""

import argparse
import asyncio
import collections
import dataclasses
import datetime
import os
import pathlib
import platform
import re
import socket
import statistics
import time

import redis as redis_client
from store_capture import (
    SPOKEN, TYPED, RedisServer, ask, converse, encode, recorded_server, scripts, speak)

CONNECTIONS = 16
DEPTHS = (1, 20)
NODES = 10
OTHER_NODE = b"other-node"
MAX_RECORD = b"%d" % (12 << 20)


# MARK: What a conversation writes


@dataclasses.dataclass
class Conversation:
    """What a server wrote for a session."""

    name: str
    session_id: str
    turns: int
    seconds: float
    first: list
    writes: list
    record: dict
    memory: int


def record_conversations(turns):
    """A typed and a spoken conversation at the same time, and the commands of the server."""
    with recorded_server() as (server, recorder, redis):
        raw = redis_client.Redis(port=redis.port)

        async def hold(name, turn, session, count):
            async def finish(link, session_id, begin):
                key = f"parley:{{{session_id}}}"
                every = recorder.of_session(session_id)
                writes = recorder.of_session(session_id, begin)
                return Conversation(
                    name, session_id, count, time.monotonic() - begin, every[0][1], writes,
                    raw.hgetall(key), raw.memory_usage(key, samples=0))
            return await converse(server, turn, session, count, finish)

        async def both():
            return await asyncio.gather(
                hold("typed", ask, TYPED, turns), hold("spoken", speak, SPOKEN, turns // 2))

        conversations = asyncio.run(both())
        return conversations, recorder.last("heartbeat")


def idle_writes(sessions, windows):
    """Writes of a session at rest in one window, and the bytes of one: windows of 5 s stand for those
    of 120 s."""
    window = 5
    with recorded_server("--resume-window-ms", str(1000 * window)) as (server, recorder, _):
        async def rest(link, session_id, begin):
            # The handle is renewed in the middle of this time.
            begin = time.monotonic()
            await asyncio.sleep(window * windows)
            return recorder.of_session(session_id, begin)

        async def all_of_them():
            return await asyncio.gather(
                *(converse(server, ask, TYPED, 0, rest) for _ in range(sessions)))

        written = [command for one in asyncio.run(all_of_them()) for command in one]
        sizes = [len(encode(words)) for _, words in written]
        return len(written) / sessions / windows, statistics.mean(sizes), written[-1][1]


def print_conversations(conversations, idle):
    print("| conversation | of a turn: seconds | writes | bytes | writes by kind, and bytes of one |")
    print("|---|---|---|---|---|")
    for one in conversations:
        sizes = collections.defaultdict(list)
        for kind, words in one.writes:
            sizes[kind].append(len(encode(words)))
        kinds = ", ".join(
            f"{kind} {len(each) / one.turns:.1f} × {statistics.mean(each):,.0f}"
            for kind, each in sorted(sizes.items()))
        total = sum(map(sum, sizes.values()))
        print(f"| {one.name}, {one.turns} turns | {one.seconds / one.turns:.1f} | "
              f"{len(one.writes) / one.turns:.1f} | {total / one.turns:,.0f} | {kinds} |")
    print(f"| at rest, a window | – | {idle[0]:.2f} | {idle[0] * idle[1]:,.0f} | new handle |\n")
    print("| record | fields | bytes of names and values | memory by MEMORY USAGE |")
    print("|---|---|---|---|")
    for one in conversations:
        size = sum(len(name) + len(value) for name, value in one.record.items())
        print(f"| {one.name}, {one.turns} turns | {len(one.record)} | {size:,} | {one.memory:,} |")
    print(flush=True)


# MARK: What an operation costs


@dataclasses.dataclass
class Operation:
    """An operation as the bytes of a command, of a session or a node whose name is replaced by others
    of the same length."""

    name: str
    words: list
    replaced: bytes
    answer: bytes
    is_of_nodes: bool = False

    def command(self, index):
        digits = b"%0*d" % (len(self.replaced), index)
        return encode(self.words).replace(self.replaced, digits)


def operations(conversations, beat, renewal):
    """In the order in which they are run: each finds the records as the one before has left them."""
    typed = conversations[0]
    session_id = typed.session_id.encode()
    write, sha, _, key, fence, node, _, lifetime = typed.first[:8]
    other = OTHER_NODE.ljust(len(node), b"-")
    digests = {name: digest.encode() for digest, (name, _) in scripts().items()}

    def run(name, *arguments):
        return [write, digests[name], b"1", key, *arguments]

    def written(kind):
        return [words for each, words in typed.writes if each == kind][-1]

    fields = [each for pair in typed.record.items() for each in pair
              if pair[0] not in (b"owner", b"fence")]
    proof = typed.record[b"proof"]
    claim = (b"0", lifetime, session_id, MAX_RECORD)
    spoken = conversations[1].session_id.encode()
    progress = [words for each, words in conversations[1].writes if each == "progress"][-1]
    own = renewal[3][len(b"parley:{"):-1]
    assert renewal[1] == sha and renewal[6] == b"0"
    renewal = [word.replace(own, session_id) for word in renewal]
    progress = [word.replace(spoken, session_id) for word in progress]
    # The renewal is that of another server, but every record here belongs to one node.
    renewal[5] = node
    steps = [
        ("a new session is written", typed.first, b"written"),
        (f"all of a session of {typed.turns} turns is written",
         run("write", fence, node, b"1", lifetime, b"0", *fields), b"written"),
        ("boundary: the user's item, and the reply begins",
         [words for each, words in typed.writes if each == "boundary"][-2], b"written"),
        ("each second: the typed reply so far", written("progress"), b"written"),
        ("each second: a spoken reply, and what was heard", progress, b"written"),
        ("new handle of a session at rest", keep_proof(renewal, proof), b"written"),
        ("claim: its node is dead", run("claim", proof, other, *claim), b"claimed"),
        ("release", run("release", b"2", other, lifetime), b"written"),
        ("claim: its node has released it", run("claim", proof, node, *claim), b"claimed"),
        ("remove", run("remove", b"3", node), b"written"),
    ]
    made = [Operation(name, words, session_id, answer) for name, words, answer in steps]
    # Each node's name, and the head of the list of records when all nodes are known.
    return [
        *made, Operation(f"heartbeat, {NODES} nodes", beat, node, b"*%d\r\n" % NODES, True)]


def keep_proof(words, proof):
    """A renewal whose new proof is `proof`, which the claims show."""
    place = words.index(b"proof")
    return [*words[:place + 1], proof, *words[place + 2:]]


class Load:
    """Connections that each send some commands and then wait for their answers."""

    def __init__(self, port):
        self.sockets = [
            socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
        for each in self.sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, operation, count, depth):
        """Runs an operation for each session. Returns the bytes of a command and of an answer."""
        names = NODES if operation.is_of_nodes else count
        commands = [operation.command(index % names) for index in range(count)]
        if operation.is_of_nodes:
            # All nodes are known before their number is in an answer.
            self.exchange(self.sockets[0], commands[:NODES], None)
        size = self.exchange(self.sockets[0], commands[:1], operation.answer)
        done = 1
        while done < count:
            batches = []
            for each in self.sockets:
                batch = commands[done:done + depth]
                done += len(batch)
                if batch:
                    each.sendall(b"".join(batch))
                    batches.append((each, len(batch)))
            for each, expected in batches:
                answers = receive(each, expected * size)
                assert answers.count(operation.answer) == expected, answers[:200]
        return len(commands[0]), size

    def exchange(self, link, commands, answer):
        """Commands whose answers' length is not known. Returns the length of the last."""
        for command in commands:
            link.sendall(command)
            time.sleep(0.02)
            size = len(received := link.recv(1 << 20))
            assert answer is None or answer in received, received[:200]
        return size

    def close(self):
        for each in self.sockets:
            each.close()


def receive(link, size):
    parts = []
    while size:
        part = link.recv(size)
        assert part, "Redis has closed the connection"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def measure_round(steps, count, depth):
    """Runs all operations on a fresh Redis. Returns for each its µs of CPU and of its script, and
    bytes; and the bytes of memory of a record after the first two."""
    outcomes, memory = [], []
    with RedisServer() as redis:
        for _, source in scripts().values():
            redis.client.script_load(source)
        load = Load(redis.port)
        before = redis.client.info("memory")["used_memory"]
        for index, step in enumerate(steps):
            if step.is_of_nodes:
                redis.client.flushall()
            redis.client.config_resetstat()
            begin = cpu(redis)
            sizes = load.run(step, count, depth)
            used = (cpu(redis) - begin) / count * 1e6
            script = redis.client.info("commandstats")["cmdstat_evalsha"]["usec_per_call"]
            outcomes.append((used, script, *sizes))
            if index < 2:
                memory.append((redis.client.info("memory")["used_memory"] - before) / count)
        load.close()
    return outcomes, memory


def cpu(redis):
    used = redis.client.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return (f"{os.cpu_count()} cores of {model[1] if model else platform.machine()}, "
            f"Linux {platform.release().split('-')[0]}, {datetime.date.today()}, "
            f"load average {os.getloadavg()[0]:.1f}")


def spread(values, digits=1):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} … {high:,.{digits}f})"


def print_operations(steps, rounds):
    print("| operation | bytes there / back | its script, µs | CPU one by one, µs "
          "| CPU 20 at once, µs | a core carries each second |")
    print("|---|---|---|---|---|---|")
    for index, step in enumerate(steps):
        alone, together = (
            [outcomes[index] for outcomes, _ in rounds[depth]] for depth in DEPTHS)
        script = statistics.median(each[1] for each in alone)
        rates = [1e6 / statistics.median(each[0] for each in some) for some in (alone, together)]
        print(f"| {step.name} | {alone[0][2]:,} / {alone[0][3]:,} | {script:.1f} | "
              f"{spread([each[0] for each in alone])} | {spread([each[0] for each in together])} | "
              f"{rates[0]:,.0f} – {rates[1]:,.0f} |")
    memory = [each for depth in DEPTHS for _, each in rounds[depth]]
    print()
    for index in range(2):
        print(f"Memory of a record, where {steps[index].name}: "
              f"{spread([each[index] for each in memory], 0)} B")


def main(options):
    print(f"{machine()}\n")
    conversations, beat = record_conversations(options.turns)
    idle = idle_writes(20, 4)
    print_conversations(conversations, idle)
    steps = operations(conversations, beat, idle[2])
    rounds = {depth: [] for depth in DEPTHS}
    for _ in range(options.rounds):
        for depth in DEPTHS:
            rounds[depth].append(measure_round(steps, options.records, depth))
    print_operations(steps, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=10)
    main(parser.parse_args())
