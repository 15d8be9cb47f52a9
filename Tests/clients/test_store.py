"""The store of sessions with a real redis-server: what a server shows of itself, and that a server
whose Redis is away serves as ever."""

import asyncio
import http.client
import json
import shutil
import subprocess
import time

import pytest
import websockets.asyncio.client
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from redis_server import RedisServer

pytestmark = pytest.mark.skipif(
    not RedisServer.INSTALLED, reason="redis-server is not installed")


def until(condition):
    """Waits until a condition is true, and returns its value."""
    end = time.monotonic() + HANG_GUARD
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return value


def converse(server):
    """A session that gets a reply."""
    async def test():
        async with websockets.asyncio.client.connect(
            server.realtime_url, **PATIENT_WEBSOCKET
        ) as session:
            await session.send(json.dumps({
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "user",
                         "content": [{"type": "input_text", "text": "Hello."}]}}))
            await session.send(json.dumps(
                {"type": "response.create", "response": {"output_modalities": ["text"]}}))
            while json.loads(await session.recv())["type"] != "response.done":
                pass
    asyncio.run(test())


def test_a_server_is_alive_in_its_store_and_serves_without_it():
    with RedisServer() as redis, ParleyServer("--store", redis.url) as server:
        until(lambda: server.get("/readyz?store")[0] == 200)
        # It expires where the server is late.
        node = until(lambda: (key := redis.command("--scan", "--pattern", "parley:node:*"))
                     and redis.command("GET", key))
        assert json.loads(node).keys() == {"name", "url", "started", "sessions"}
        converse(server)
        redis.suspend()
        until(lambda: server.get("/readyz?store")[0] == 503)
        assert server.get("/readyz")[0] == 200
        converse(server)
        redis.resume()
        until(lambda: server.get("/readyz?store")[0] == 200)
        redis.stop()
        until(lambda: server.get("/readyz?store")[0] == 503)
        converse(server)
        redis.start()
        until(lambda: server.get("/readyz?store")[0] == 200)
        page = server.get("/metrics")[2].decode()
        assert 'parley_store_operation_seconds_count{operation="heartbeat"}' in page


def test_a_server_ends_while_its_store_stands_still():
    with RedisServer() as redis:
        with ParleyServer("--store", redis.url) as server:
            until(lambda: server.get("/readyz?store")[0] == 200)
            redis.suspend()
        redis.resume()


def ask(server):
    """The status of a text request with the key."""
    body = json.dumps({"model": "parley", "messages": [{"role": "user", "content": "Hello."}]})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    try:
        connection.request(
            "POST", "/v1/chat/completions", body,
            {"Authorization": "Bearer the-key", "Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def test_two_servers_share_the_quota_of_a_key():
    def reports(server):
        page = server.get("/metrics", {"Authorization": "Bearer the-key"})[2].decode()
        name = 'parley_store_operation_seconds_count{operation="use"} '
        return sum(int(line.split()[-1]) for line in page.splitlines() if line.startswith(name))

    options = {"PARLEY_API_KEY": "the-key", "PARLEY_QUOTAS_PER_KEY": "turns=5/day"}
    with RedisServer() as redis, \
            ParleyServer("--store", redis.url, **options) as one, \
            ParleyServer("--store", redis.url, **options) as two:
        for server in (one, two):
            until(lambda: server.get("/readyz?store")[0] == 200)
        assert [ask(one) for _ in range(4)] == [200] * 4
        until(lambda: redis.command("--scan", "--pattern", "parley:quota:*"))
        key = redis.command("--scan", "--pattern", "parley:quota:*")
        # All four are known: they take four fifths of a day to fill up.
        until(lambda: int(redis.command("PTTL", key)) > 68_000_000)
        # What this server does not know yet it allows, and learns.
        assert ask(two) == 200
        until(lambda: reports(two) > 0)
        assert ask(two) == 429


class Trouble:
    """A real redis-server that answers and is of no use to the store: how it begins and ends, what
    the log quotes of its refusal, and how its commands log in."""

    arguments = ()
    login = ()
    user = ""
    # A connection that stays learns of it by a refused command; one that is lost, when it returns.
    losses = 1

    def __init__(self, words, begin, end):
        self.words, self.begin, self.end = words, [begin.split(" ")], [end.split(" ")]

    def prepare(self, redis):
        """Before Parley starts."""

    def start(self, redis):
        for command in self.begin:
            redis.command(*self.login, *command)

    def stop(self, redis):
        for command in self.end:
            redis.command(*self.login, *command)


class Password(Trouble):
    """Another password than the URL's, and the connections are closed."""

    losses = 2
    login = ("-a", "other", "--no-auth-warning")

    def __init__(self, words, user, before):
        super().__init__(words, "", f"CONFIG SET requirepass {before}")
        self.user, self.before = user, before

    def prepare(self, redis):
        redis.command("CONFIG", "SET", "requirepass", self.before)

    def start(self, redis):
        before = ("-a", self.before, "--no-auth-warning") if self.before else ()
        redis.command(*before, "CONFIG", "SET", "requirepass", "other")
        redis.command(*self.login, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


class Permission(Trouble):
    """The URL's user may not use the store's keys any more, and its connections are closed."""

    losses = 2
    user = "ann:secret@"
    rules = "+@read +@write +@scripting +@connection +time"

    def __init__(self):
        super().__init__("NOPERM", "", f"ACL SETUSER ann ~parley:* {self.rules}")

    def prepare(self, redis):
        redis.command(*f"ACL SETUSER ann on >secret ~parley:* {self.rules}".split())

    def start(self, redis):
        redis.command("ACL", "SETUSER", "ann", "resetkeys", "~other:*")
        redis.command("CLIENT", "KILL", "USER", "ann")


class Disk(Trouble):
    """The folder of its file is gone: it cannot save, and takes no more."""

    def __init__(self, folder):
        self.folder, self.words = folder, "MISCONF"
        self.arguments = (
            "--save", "1 1", "--dir", str(folder), "--stop-writes-on-bgsave-error", "yes",
            "--enable-protected-configs", "local")

    def save(self, redis, status):
        redis.command("SET", "other", "1")
        redis.command("BGSAVE", "SCHEDULE")
        until(lambda: f"rdb_last_bgsave_status:{status}" in redis.command("INFO", "persistence"))

    def start(self, redis):
        shutil.rmtree(self.folder)
        self.save(redis, "err")

    def stop(self, redis):
        self.folder.mkdir()
        redis.command("CONFIG", "SET", "dir", str(self.folder))
        redis.command("BGSAVE", "SCHEDULE")


TROUBLES = {
    "replica": lambda _: Trouble("READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    "memory": lambda _: Trouble("OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "replicas": lambda _: Trouble(
        "NOREPLICAS", "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET min-replicas-to-write 0"),
    "disk": Disk,
    "permission": lambda _: Permission(),
    "password": lambda _: Password("WRONGPASS", ":first@", "first"),
    "password, new": lambda _: Password("NOAUTH", "", ""),
}


def check_losses(log, count):
    """Each loss of the store is one line, however often it is tried. A Redis or a server that had no processor
    for long adds two: that it does not answer, and the cause again."""
    late = 2 * log.count("it does not answer")
    assert count <= log.count("redis is away") <= count + late


@pytest.mark.parametrize("name", TROUBLES)
def test_a_redis_that_is_up_and_of_no_use_is_one_line_and_a_cause(name, tmp_path):
    """redis#2746, StackExchange.Redis#2264."""
    def attempts():
        stats = redis.command(*trouble.login, "INFO", "stats")
        return int(stats.split("total_connections_received:")[1].split()[0])

    folder, cause = tmp_path / "redis", name.split(",")[0]
    folder.mkdir()
    trouble = TROUBLES[name](folder)
    with RedisServer(arguments=trouble.arguments) as redis:
        trouble.prepare(redis)
        url = redis.url.replace("://", f"://{trouble.user}")
        with ParleyServer("--store", url, "--shards", "1") as server:
            until(lambda: server.get("/readyz?store")[0] == 200)
            trouble.start(redis)
            until(lambda: f"({cause})" in server.get("/readyz?store")[2].decode())
            assert server.get("/readyz")[0] == 200
            assert server.metric(f'parley_store_troubles{{cause="{cause}"}}') == "1"
            converse(server)
            # Each question is a connection, too.
            before, questions = attempts(), 1
            begun = time.monotonic()
            while attempts() - before - questions < 4:
                questions += 1
                time.sleep(0.02)
            # The pauses of four attempts are at least half of what they may be.
            assert time.monotonic() - begun > 0.5
            assert server.get("/readyz?store")[0] == 503
            log = server.log_path.read_text()
            check_losses(log, trouble.losses)
            line = next(each for each in log.splitlines() if f"cause={cause}" in each)
            assert trouble.words in line
            trouble.stop(redis)
            until(lambda: server.get("/readyz?store")[0] == 200)
            assert server.metric(f'parley_store_troubles{{cause="{cause}"}}') == "0"


def test_a_redis_cluster_is_named(tmp_path):
    """Its scripts would be refused one by one, and nothing would be kept."""
    with RedisServer(arguments=["--cluster-enabled", "yes", "--dir", str(tmp_path)]) as redis:
        with ParleyServer("--store", redis.url, "--shards", "1") as server:
            until(lambda: "(cluster)" in server.get("/readyz?store")[2].decode())
            redis.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            # It serves single keys then, and no script of two.
            until(lambda: "CROSSSLOT" in redis.command("INFO", "errorstats"))
            converse(server)
            assert "(cluster)" in server.get("/readyz?store")[2].decode()
            log = server.log_path.read_text()
            check_losses(log, 1)
            assert "redis answers" not in log


def test_a_server_without_a_store_has_none_that_is_away(parley):
    assert parley.get("/readyz?store")[0] == 200


def test_a_password_in_the_url_is_shown_nowhere():
    url = "redis://:hush@127.0.0.1:1"
    printed = subprocess.run(
        [BINARY, "serve", "--store", url, "--print-config"], capture_output=True, text=True,
        timeout=HANG_GUARD, check=True)
    assert "hush" not in printed.stdout + printed.stderr
    with ParleyServer("--store", url) as server:
        until(lambda: server.get("/readyz?store")[0] == 503)
        until(lambda: "redis is away" in server.log_path.read_text())
        assert "hush" not in server.log_path.read_text()


def test_a_url_that_is_none_is_refused():
    done = subprocess.run(
        [BINARY, "serve", "--store", "http://hush@localhost"], capture_output=True, text=True,
        timeout=HANG_GUARD, check=False)
    assert done.returncode != 0 and "store" in done.stderr and "hush" not in done.stderr
