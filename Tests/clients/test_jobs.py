"""Turns as jobs of a Redis stream: a real server, a real Redis, and real worker processes that are
killed, stopped, slow and too fast."""

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
import websockets
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer
from realtime_session import TOOL, connect, run
from redis_server import RedisServer
from scripted_model import ScriptedModel

WORKER = pathlib.Path(__file__).with_name("job_worker.py")
STREAM, GROUP, DEAD = "parley:jobs", "workers", "parley:jobs:dead"
# A worker that is alive renews its lease five times in this time, also on a busy machine. Few tests wait for
# its end.
LEASE_MS = 10_000
PATIENT = f"lease-ms={LEASE_MS} pickup-ms=600000"


class Workers:
    """Processes of job_worker.py, and what they have written."""

    def __init__(self, url, record):
        self.url, self.record, self.processes = url, record, []

    def start(self, jobs=1):
        with open(self.record.with_suffix(".log"), "ab") as log:
            process = subprocess.Popen(
                [sys.executable, WORKER, self.record, self.url, "--jobs", str(jobs)],
                stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def kill(self, process):
        process.kill()
        process.wait()

    def events(self, *names):
        if not self.record.exists():
            return []
        # The last line may not be written to its end.
        lines = self.record.read_text(encoding="utf-8").split("\n")[:-1]
        return [event for event in map(json.loads, lines) if event["event"] in names]

    async def until(self, name, count=1):
        """Waits until so many events of a name have been written; returns the last one."""
        await until(lambda: len(self.events(name)) >= count)
        return self.events(name)[count - 1]

    def owner(self, event):
        """The process that wrote an event."""
        return next(process for process in self.processes if process.pid == event["pid"])


async def until(condition):
    deadline = time.monotonic() + HANG_GUARD
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture
def workers(redis, tmp_path):
    workers = Workers(redis.url, tmp_path / "record.jsonl")
    yield workers
    for process in workers.processes:
        workers.kill(process)


def served(redis, fields=PATIENT, *arguments):
    """A server whose turns go to workers."""
    provider = f"name=team kind=redis-stream url={redis.url} models=* {fields}"
    return ParleyServer("--providers", provider, *arguments)


@pytest.fixture
def parley(redis):
    with served(redis) as server:
        yield server


def is_empty(redis):
    """Whether nothing is left of any job."""
    return (redis.client.xlen(STREAM) == 0
            and redis.client.xpending(STREAM, GROUP)["pending"] == 0
            and not redis.client.keys(f"{STREAM}:lease:*"))


def counted(server, name):
    return int(server.metric(f'parley_model_jobs_{name}_total{{provider="team"}}'))


async def begin(session, text):
    """Asks for a response, and does not wait for it."""
    await session.update(output_modalities=["text"])
    await session.say(text)
    await session.connection.response.create()


async def done(session):
    """The response that is under way, at its end."""
    response = (await session.until("response.done")).response
    await session.until("rate_limits.updated")
    return response


def text(response):
    return [part.text for item in response.output if item.type == "message"
            for part in item.content]


async def begin_reply(session, words):
    """Asks for a response, and waits for its first word."""
    await begin(session, words)
    event = await session.until("response.output_text.delta", "response.done")
    assert event.type == "response.output_text.delta", event


def expire_lease(redis):
    """The lease of a worker that was killed ends now; it would within LEASE_MS."""
    (lease,) = redis.client.keys(f"{STREAM}:lease:*")
    assert 0 < redis.client.pttl(lease) <= LEASE_MS
    worker, entry = redis.client.hmget(lease, "worker", "entry")
    redis.client.xclaim(STREAM, GROUP, worker, 0, [entry], idle=LEASE_MS, justid=True)
    redis.client.delete(lease)


async def turn(session, words):
    await begin(session, words)
    return await done(session)


def test_workers_answer_turns(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            response = await turn(session, "hello there")
            assert response.status == "completed" and text(response) == ["You said: hello there "]
            began = await workers.until("began")
            assert began["key"] == response.id and began["run"] == "1"
            assert began["session"].startswith("sess_")
            assert is_empty(redis)

    workers.start()
    run(test())


@pytest.mark.busy
def test_many_turns_are_shared(redis, workers, parley):
    async def talk(number):
        async with connect(parley) as session:
            # The first four turns end once they all run, which takes both workers.
            for words in [f"meet {number}", f"this is {number}", f"and again {number}"]:
                assert text(await turn(session, words)) == [f"You said: {words} "]

    async def test():
        await asyncio.gather(*(talk(number) for number in range(20)))
        assert len({event["pid"] for event in workers.events("finished")}) == 2
        assert len({event["job"] for event in workers.events("began")}) == 60
        await until(lambda: is_empty(redis))
        assert counted(parley, "repeated") == counted(parley, "lost") == 0

    workers.start(jobs=2)
    workers.start(jobs=2)
    run(test())


def test_a_worker_calls_the_clients_functions(workers, parley):
    async def test():
        async with connect(parley) as session:
            await session.update(tools=[TOOL], output_modalities=["text"])
            response = await turn(session, "how is the weather")
            assert text(response) == ["One moment."] or text(response) == ["One moment. "]
            call = next(item for item in response.output if item.type == "function_call")
            assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Oslo"}

    workers.start()
    run(test())


def test_a_worker_that_is_killed_before_its_first_word_is_replaced(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            await begin(session, "wait for the second run")
            began = await workers.until("began")
            # Takes real time: its lease runs out.
            workers.kill(workers.owner(began))
            response = await done(session)
            assert response.status == "completed"
            assert text(response) == ["You said: wait for the second run "]
            again = await workers.until("began", 2)
            assert again["run"] == "2" and again["pid"] != began["pid"]
            # The same turn for the agent, another job for Redis.
            assert again["key"] == began["key"] == response.id and again["job"] != began["job"]
            assert counted(parley, "repeated") == 1 and counted(parley, "lost") == 0
            assert is_empty(redis) and not redis.client.exists(DEAD)

    workers.start()
    workers.start()
    run(test())


def test_a_worker_that_is_killed_in_its_reply_fails_the_response(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            await begin_reply(session, "stop halfway")
            workers.kill(workers.owner(await workers.until("began")))
            expire_lease(redis)
            response = await done(session)
            assert response.status == "failed"
            error = response.status_details.error
            assert error.code == "agent_lost"
            assert error.message == "The agent stopped in the middle of its answer; ask again."
            assert text(response) == ["Once upon "]
            # It was not run again, and the session goes on.
            assert len(workers.events("began")) == 1
            assert text(await turn(session, "hello")) == ["You said: hello "]
            (_, letter), = redis.client.xrange(DEAD)
            assert letter["reason"] == "spoken" and letter["key"] == response.id
            assert counted(parley, "lost") == 1 and is_empty(redis)

    workers.start()
    workers.start()
    run(test())


def test_a_slow_worker_that_is_alive_is_not_run_twice(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            # Takes real time: its first lease runs out.
            response = await turn(session, "think for long")
            assert text(response) == ["You said: think for long "]
            assert [event["run"] for event in workers.events("began")] == ["1"]
            assert counted(parley, "repeated") == 0 and is_empty(redis)

    # The second one would have time for it.
    workers.start()
    workers.start()
    run(test())


def test_a_turn_that_kills_its_workers_is_a_dead_letter(redis, workers):
    async def test(server):
        async with connect(server) as session:
            await begin(session, "never answer")
            for number in [1, 2]:
                workers.kill(workers.owner(await workers.until("began", number)))
                expire_lease(redis)
                workers.start()
            response = await done(session)
            assert response.status == "failed"
            error = response.status_details.error
            assert error.code == "agent_lost"
            assert error.message == "The agent stopped before it answered; try again."
            (_, letter), = redis.client.xrange(DEAD)
            assert letter["reason"] == "attempts" and letter["run"] == "2"
            messages = json.loads(letter["request"])["messages"]
            assert messages[-1]["content"] == "never answer"
            assert counted(server, "repeated") == counted(server, "lost") == 1
            assert len(workers.events("began")) == 2 and is_empty(redis)

    workers.start()
    with served(redis, f"{PATIENT} attempts=2") as server:
        run(test(server))


def test_the_fallback_answers_where_no_worker_does(redis):
    with ScriptedModel() as spare:
        arguments = (
            f"name=team kind=redis-stream url={redis.url} models=* pickup-ms=300 fallback=spare,"
            f"name=spare url={spare.url}")
        with ParleyServer("--providers", arguments) as server:

            async def test():
                async with connect(server) as session:
                    assert text(await turn(session, "hello")) == ["You said: hello"]
                    await until(lambda: is_empty(redis))

            run(test())


@pytest.mark.parametrize("fields,code", [
    ("pickup-ms=300", "upstream_error"), ("pickup-ms=600000 max-jobs=1", "rate_limit_exceeded")])
def test_without_a_worker_a_turn_fails(redis, fields, code):
    async def test(server):
        async with connect(server) as first, connect(server) as session:
            if "max-jobs" in fields:
                await begin(first, "hello")
                await until(lambda: redis.client.xlen(STREAM) == 1)
            response = await turn(session, "hello")
            assert response.status == "failed"
            assert response.status_details.error.code == code

    with served(redis, fields) as server:
        run(test(server))
        asyncio.run(until(lambda: is_empty(redis)))


def test_an_interruption_stops_the_worker(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            await begin_reply(session, "tell me a story")
            await session.connection.response.cancel()
            assert (await done(session)).status == "cancelled"
            await workers.until("stopped")
            await until(lambda: is_empty(redis))
            # Before the first word.
            await begin(session, "never answer")
            await workers.until("began", 2)
            await session.connection.response.cancel()
            assert (await done(session)).status == "cancelled"
            await workers.until("stopped", 2)
            assert is_empty(redis)

    workers.start()
    run(test())


def test_a_turn_that_is_interrupted_while_it_waits_is_not_begun(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            await begin(session, "hello")
            await until(lambda: redis.client.xlen(STREAM) == 1)
            await session.connection.response.cancel()
            assert (await done(session)).status == "cancelled"
            await until(lambda: is_empty(redis))
            workers.start()
            assert text(await turn(session, "again")) == ["You said: again "]
            assert len(workers.events("began")) == 1

    run(test())


@pytest.mark.parametrize("words,code", [
    ("fail", "upstream_error"), ("rubbish", "upstream_malformed_reply")])
def test_a_worker_that_fails_fails_the_turn_alone(redis, workers, parley, words, code):
    async def test():
        async with connect(parley) as session:
            response = await turn(session, words)
            assert response.status == "failed"
            assert response.status_details.error.code == code
            assert "secret" not in response.status_details.error.message
            assert text(await turn(session, "hello")) == ["You said: hello "]
            await until(lambda: is_empty(redis))

    workers.start()
    run(test())


def test_a_worker_that_is_asked_to_end_finishes_its_turn(redis, workers, parley):
    async def test():
        async with connect(parley) as session:
            await begin(session, "wait for the word")
            process = workers.owner(await workers.until("began"))
            process.send_signal(signal.SIGTERM)
            workers.record.with_suffix(".word").touch()
            assert text(await done(session)) == ["You said: wait for the word "]
            assert await asyncio.to_thread(process.wait, HANG_GUARD) == 0
            # It takes no other.
            await begin(session, "hello")
            await until(lambda: redis.client.xlen(STREAM) == 1)
            workers.start()
            assert text(await done(session)) == ["You said: hello "]

    workers.start()
    run(test())


def expire_replies(redis):
    """The reply streams of servers that are gone end now; they would within 30 s."""
    streams = redis.client.keys(f"{STREAM}:replies:*")
    assert streams and all(0 < redis.client.pttl(stream) <= 30_000 for stream in streams)
    redis.client.delete(*streams)


def kill(server):
    server.expected_status = -signal.SIGKILL
    server.process.kill()
    server.process.wait()


@pytest.mark.parametrize("words", ["never answer", "tell me a story"])
def test_a_worker_removes_the_job_of_a_server_that_was_killed(redis, workers, words):
    async def test(server):
        async with connect(server) as session:
            await (begin_reply if "story" in words else begin)(session, words)
            await workers.until("began")
            kill(server)
        assert redis.client.xlen(STREAM) == 1
        expire_replies(redis)
        await workers.until("stopped")
        await until(lambda: is_empty(redis))
        assert not redis.client.exists(DEAD)

    workers.start()
    with served(redis) as server:
        run(test(server))


def test_the_next_server_removes_what_a_server_and_its_worker_have_left(redis, workers):
    async def leave(server):
        async with connect(server) as session:
            await begin(session, "never answer")
            workers.kill(workers.owner(await workers.until("began")))
            kill(server)
        expire_replies(redis)

    async def test(server):
        workers.start()
        async with connect(server) as session:
            # The first turns may find the stream full.
            deadline = time.monotonic() + HANG_GUARD
            while (response := await turn(session, "hello")).status != "completed":
                assert response.status_details.error.code == "rate_limit_exceeded"
                assert time.monotonic() < deadline
            assert text(response) == ["You said: hello "]
            await until(lambda: is_empty(redis))

    workers.start()
    fields = f"{PATIENT} max-jobs=1"
    with served(redis, fields) as server:
        run(leave(server))
    assert redis.client.xlen(STREAM) == 1
    with served(redis, fields) as server:
        run(test(server))


@pytest.mark.parametrize("way", ["stopped", "empty"])
def test_a_redis_that_goes_away_fails_turns_and_serves_later_ones(redis, workers, parley, way):
    async def test():
        async with connect(parley) as session, connect(parley) as other:
            assert text(await turn(session, "hello")) == ["You said: hello "]
            await begin_reply(other, "stop halfway")
            if way == "stopped":
                redis.process.send_signal(signal.SIGSTOP)
            else:
                redis.process.kill()
                redis.process.wait()
            try:
                # A turn under way, and one that is asked meanwhile.
                for response in [await done(other), await turn(session, "are you there")]:
                    assert response.status == "failed"
                    assert response.status_details.error.code == "upstream_error"
            finally:
                if way == "stopped":
                    redis.process.send_signal(signal.SIGCONT)
            again = RedisServer(redis.port) if way == "empty" else contextlib.nullcontext(redis)
            with again:
                # Until the server has noticed that Redis is back, a turn fails at once.
                while (response := await turn(session, "hello")).status != "completed":
                    await asyncio.sleep(0.1)
                assert text(response) == ["You said: hello "]

    workers.start(jobs=2)
    run(test())


def test_a_client_that_does_not_read_holds_its_worker(redis, workers):
    """The worker is told to wait, nothing is lost, and other turns go on."""

    async def test(parley):
        # The smallest receive buffer that the kernel allows, so that data waits at the server.
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        narrow.connect(("127.0.0.1", parley.port))
        options = PATIENT_WEBSOCKET | {"max_size": None, "compression": None, "max_queue": 1}
        async with websockets.connect(parley.realtime_url, sock=narrow, **options) as client:
            async def send(**event):
                await client.send(json.dumps(event))

            await send(type="session.update", session={
                "type": "realtime", "output_modalities": ["text"]})
            await send(type="conversation.item.create", item={
                "type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "flood"}]})
            await send(type="response.create")
            await until(lambda: any(
                redis.client.hexists(lease, "held")
                for lease in redis.client.keys(f"{STREAM}:lease:*")))
            workers.record.with_suffix(".word").touch()
            flood = await workers.until("began")
            async with connect(parley) as session:
                assert text(await turn(session, "hello")) == ["You said: hello "]
            assert flood["job"] not in [event["job"] for event in workers.events("finished")]
            # From now on it reads as fast as any: through the small buffer it would take as long as the
            # kernel's timers, which is minutes on a busy machine.
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            heard = []
            while (event := json.loads(await client.recv()))["type"] != "response.done":
                if event["type"] == "response.output_text.delta":
                    heard.append(event["delta"])
            assert event["response"]["status"] == "completed"
            said = "".join(heard)
            numbers = [f"{number:06}" for number in range(1, 2_001)]
            assert [said[at:at + 6] for at in range(0, 200_000, 100)] == numbers

    workers.start(jobs=2)
    # A tenth of what the reply takes, and time for the other turn, in which the client answers no ping.
    limits = ["--soft-queued-output-bytes", "65536", "--slow-reader-timeout-ms", "600000",
              "--idle-timeout-ms", "600000"]
    with served(redis, PATIENT, *limits) as server:
        run(test(server))


@pytest.fixture
def swift_worker(redis):
    program = ROOT / ".build/release/worker"
    assert program.exists(), "`make test-clients` builds the worker in Swift"
    process = subprocess.Popen([program, redis.url])
    yield process
    process.kill()
    process.wait()


def consumers(redis):
    """The names of the workers."""
    return [consumer["name"] for consumer in redis.client.xinfo_consumers(STREAM, GROUP)]


def test_the_worker_in_swift_answers_turns(redis, parley, swift_worker):
    async def test():
        async with connect(parley) as session:
            for words in ["hello there", "and again"]:
                assert text(await turn(session, words)) == [f"You said: {words} "]
            await until(lambda: is_empty(redis))
            # The random part: in containers, hosts and processes may be called the same.
            name, = consumers(redis)
            assert name.startswith(f"{socket.gethostname()}:{swift_worker.pid}:")
            assert int(name.rpartition(":")[2], 16) >= 0

    run(test())


@pytest.mark.parametrize("request_body", ["rubbish", "{}", '{"messages": []}'])
def test_the_worker_in_swift_says_that_it_cannot_answer(redis, swift_worker, request_body):
    script = ROOT / "Sources/Agents/Jobs/Scripts/ask.lua"
    ask = redis.client.register_script(script.read_text(encoding="utf-8"))
    replies = f"{STREAM}:replies:test"
    fields = {"job": "t.1", "reply": replies, "lease": f"{STREAM}:lease:t.1", "lease_ms": 60_000,
              "request": request_body}
    ask(keys=[STREAM, replies],
        args=[GROUP, 10, 60_000, 60_000, *(word for field in fields.items() for word in field)])
    (_, ((_, piece),)), = redis.client.xread({replies: "0-1"}, block=int(HANG_GUARD * 1000))
    assert piece["type"] == "error" and piece["n"] == "1" and piece["message"]
    assert is_empty(redis) and swift_worker.poll() is None


@pytest.mark.parametrize("is_busy", [False, True])
def test_the_worker_in_swift_that_is_asked_to_end_finishes_its_turn(
        redis, parley, swift_worker, is_busy):
    words = "word " * 5_000

    async def test():
        async with connect(parley) as session:
            if is_busy:
                await begin_reply(session, words)
            else:
                # It has made the group, and waits for a job.
                await until(lambda: redis.client.exists(STREAM))
            swift_worker.send_signal(signal.SIGTERM)
            if is_busy:
                assert text(await done(session)) == [f"You said: {words}"]
            assert await asyncio.to_thread(swift_worker.wait, HANG_GUARD) == 0
            await until(lambda: not redis.client.exists(STREAM) or redis.client.xlen(STREAM) == 0)

    run(test())


@pytest.mark.busy
def test_figures(redis, workers, parley, figure):
    """Turns a second, and the time to the first word, of workers that answer at once."""

    async def talk(times, count):
        async with connect(parley) as session:
            await session.update(output_modalities=["text"])
            for _ in range(count):
                await session.say("hello")
                start = time.monotonic()
                await session.connection.response.create()
                await session.until("response.output_text.delta")
                times.append(time.monotonic() - start)
                await done(session)

    async def test():
        alone, together = [], []
        await talk(alone, 21)
        start = time.monotonic()
        await asyncio.gather(*(talk(together, 5) for _ in range(20)))
        seconds = time.monotonic() - start
        alone.sort()
        figure(f"jobs: first word after {alone[10] * 1000:.1f} ms (median of 21), "
               f"{len(together) / seconds:.0f} turns a second of 20 sessions")

    workers.start(jobs=4)
    run(test())
    assert os.path.exists(workers.record)
