"""The Lua scripts of turns as jobs, each by itself, against a real Redis: those of servers
(Sources/Agents/Jobs/Scripts) and those of workers (examples/worker/lua)."""

import time

import pytest
import redis
from parley_server import HANG_GUARD, ROOT
from redis_server import RedisServer

STREAM, GROUP, REPLY = "jobs", "workers", "jobs:replies:node-0"
LEASE_MS = 60_000
STOP, GO_ON, HOLD = 0, 1, 2


@pytest.fixture(scope="module")
def server():
    with RedisServer() as server:
        yield server


class Queue:
    """A stream of jobs, and the scripts."""

    def __init__(self, client):
        self.redis, self.entries = client, {}
        folders = ["Sources/Agents/Jobs/Scripts", "examples/worker/lua"]
        self.scripts = {
            file.stem: client.register_script(file.read_text(encoding="utf-8"))
            for folder in folders for file in (ROOT / folder).glob("*.lua")}

    def __getattr__(self, name):
        return lambda keys, *arguments: self.scripts[name](keys=keys, args=arguments)

    def lease(self, job):
        return f"{STREAM}:lease:{job}"

    def fields(self, job):
        return ["job", job, "reply", REPLY, "lease", self.lease(job), "request", "{}"]

    def asked(self, job, most=100):
        """Asks for a job."""
        return self.ask([STREAM, REPLY], GROUP, most, 60_000, 60_000, *self.fields(job))

    def taken(self, worker):
        """A worker takes the next job: its entry and its fields; nil where there is none."""
        read = self.redis.xreadgroup(GROUP, worker, {STREAM: ">"}, 1)
        return read[0][1][0] if read else None

    def begun(self, job, worker="a"):
        """A worker takes the next job, which is this one, and begins it."""
        entry, fields = self.taken(worker)
        assert fields["job"] == job
        assert self.begins(job, entry, worker) == GO_ON
        return entry

    def run(self, script, job, entry, worker, *arguments, lease=LEASE_MS):
        """A worker runs one of its scripts, which all begin with the same arguments."""
        return self.scripts[script](
            keys=[STREAM, self.lease(job), REPLY],
            args=[GROUP, worker, entry, job, lease, *arguments])

    def begins(self, job, entry, worker="a", lease=LEASE_MS):
        self.entries[job] = entry
        return self.run("begin", job, entry, worker, lease=lease)

    def says(self, job, number, text, worker="a"):
        return self.run(
            "say", job, self.entries[job], worker, number, "type", "text", "text", text)

    def finishes(self, job, number, entry, worker="a"):
        return self.run("finish", job, entry, worker, number, "type", "end")

    def beats(self, job, worker="a"):
        return self.run("beat", job, self.entries[job], worker)

    def sights(self, *jobs, idle=0):
        """What watch.lua tells of jobs, given with their entries."""
        keys = [STREAM, REPLY] + [self.lease(job) for job, _ in jobs]
        return self.watch(keys, GROUP, 60_000, "0-1", idle, *(entry for _, entry in jobs))[1:]

    def said(self):
        """The pieces in the reply stream."""
        return [fields for _, fields in self.redis.xrange(REPLY)]

    def loses_heart(self, job):
        """The worker of a job dies, and its lease runs out."""
        self.redis.delete(self.lease(job))

    def is_empty(self):
        """Whether nothing is left of any job."""
        return (self.redis.xlen(STREAM) == 0
                and self.redis.xpending(STREAM, GROUP)["pending"] == 0
                and not self.redis.keys(f"{STREAM}:lease:*"))


@pytest.fixture
def queue(server):
    server.client.flushall()
    return Queue(server.client)


def test_a_job_is_taken_answered_and_leaves_nothing(queue):
    asked = queue.asked("t.1")
    assert queue.sights(("t.1", asked)) == ["waiting"]
    entry, fields = queue.taken("a")
    assert entry == asked and fields["request"] == "{}"
    milliseconds = int(asked.split("-")[0])
    assert abs(int(fields["deadline"]) - milliseconds - 60_000) < 60_000
    assert queue.sights(("t.1", asked), idle=60_000) == ["taken"]
    assert queue.begins("t.1", entry) == GO_ON
    assert queue.sights(("t.1", asked)) == ["running"]
    assert queue.says("t.1", 1, "Hello ") == GO_ON
    assert queue.beats("t.1") == GO_ON
    assert queue.finishes("t.1", 2, entry) == 1
    assert queue.said() == [
        {"job": "t.1", "n": "1", "type": "text", "text": "Hello "},
        {"job": "t.1", "n": "2", "type": "end"}]
    assert queue.is_empty() and queue.sights(("t.1", asked)) == ["gone"]


def test_jobs_go_to_one_worker_each_in_their_order(queue):
    for number in range(3):
        queue.asked(f"t.{number}")
    taken = [queue.taken(worker)[1]["job"] for worker in ["a", "b", "a"]]
    assert taken == ["t.0", "t.1", "t.2"] and queue.taken("b") is None


def test_a_full_stream_takes_no_job(queue):
    assert queue.asked("t.1", most=2) and queue.asked("t.2", most=2)
    assert queue.asked("t.3", most=2) is None
    queue.finishes("t.1", 1, queue.begun("t.1"))
    assert queue.asked("t.3", most=2)


def test_a_piece_that_is_said_again_comes_once(queue):
    queue.asked("t.1")
    entry = queue.begun("t.1")
    assert queue.says("t.1", 1, "one") == queue.says("t.1", 1, "one") == GO_ON
    assert [piece["text"] for piece in queue.said()] == ["one"]
    with pytest.raises(redis.ResponseError, match="piece 2 is missing"):
        queue.says("t.1", 3, "three")
    with pytest.raises(redis.ResponseError, match="the last piece is 2"):
        queue.finishes("t.1", 5, entry)
    assert queue.finishes("t.1", 2, entry) == 1 and queue.finishes("t.1", 2, entry) == STOP
    assert len(queue.said()) == 2


def test_a_piece_has_a_limit(queue):
    queue.asked("t.1")
    entry = queue.begun("t.1")
    with pytest.raises(redis.ResponseError, match="64 KiB"):
        queue.says("t.1", 1, "x" * 65_536)
    assert queue.says("t.1", 1, "x" * 65_000) == GO_ON
    with pytest.raises(redis.ResponseError, match="64 KiB"):
        queue.run("finish", "t.1", entry, "a", 2, "type", "error", "message", "x" * 65_536)


def test_a_worker_that_is_alive_keeps_its_job(queue):
    """However long it is idle in the group's eyes: only the heartbeat counts."""
    asked = queue.asked("t.1")
    entry = queue.begun("t.1")
    queue.redis.xclaim(STREAM, GROUP, "a", 0, [entry], idle=3_600_000)
    assert queue.sights(("t.1", asked), idle=1) == ["running"]
    lost = [STREAM, queue.lease("t.1")]
    assert queue.claim(lost, GROUP, asked, 0, 60_000, *queue.fields("t.2")) is None
    assert queue.bury([*lost, "jobs:dead"], GROUP, asked, 0, "attempts", 10, 60_000) == 0
    assert queue.says("t.1", 1, "still here") == GO_ON
    assert queue.redis.xlen(STREAM) == 1 and not queue.redis.exists("jobs:dead")


@pytest.mark.parametrize("begins", [False, True])
def test_the_job_of_a_dead_worker_is_given_to_another(queue, begins):
    asked = queue.asked("t.1")
    entry = queue.begun("t.1") if begins else queue.taken("a")[0]
    queue.loses_heart("t.1")
    assert queue.sights(("t.1", asked), idle=0) == ["lost"]
    again = queue.claim(
        [STREAM, queue.lease("t.1")], GROUP, asked, 0, 60_000, *queue.fields("t.2"))
    assert queue.sights(("t.1", asked), ("t.2", again)) == ["gone", "waiting"]
    # The first was only asleep: it is not heard any more.
    assert queue.begins("t.1", entry) == STOP
    assert queue.says("t.1", 1, "old") == queue.beats("t.1") == STOP
    assert queue.finishes("t.1", 1, entry) == STOP and queue.said() == []
    second = queue.begun("t.2", "b")
    assert queue.finishes("t.2", 1, second, "b") == 1 and queue.is_empty()


def test_a_job_that_was_answered_after_all_is_not_run_again(queue):
    """Its worker has woken after the server saw it lost, and before the server claims its job."""
    asked = queue.asked("t.1")
    entry, _ = queue.taken("a")
    assert queue.sights(("t.1", asked)) == ["lost"]
    assert queue.begins("t.1", entry) == GO_ON and queue.finishes("t.1", 1, entry) == 1
    lost = [STREAM, queue.lease("t.1")]
    assert queue.claim(lost, GROUP, asked, 0, 60_000, *queue.fields("t.2")) is None
    assert queue.bury([*lost, "jobs:dead"], GROUP, asked, 0, "attempts", 10, 60_000) == 0
    assert queue.is_empty() and not queue.redis.exists("jobs:dead")


def test_a_lease_runs_out_without_a_heartbeat(queue):
    asked = queue.asked("t.1")
    entry, _ = queue.taken("a")
    assert queue.begins("t.1", entry, lease=20) == GO_ON
    deadline = time.monotonic() + HANG_GUARD
    while queue.sights(("t.1", asked), idle=1) != ["lost"]:
        assert time.monotonic() < deadline
    assert queue.beats("t.1") == STOP


def test_a_job_that_is_given_up_becomes_a_dead_letter(queue):
    asked = queue.asked("t.1")
    queue.begun("t.1")
    queue.loses_heart("t.1")
    keys = [STREAM, queue.lease("t.1"), "jobs:dead"]
    assert queue.bury(keys, GROUP, asked, 0, "attempts", 10, 60_000) == 1
    (_, letter), = queue.redis.xrange("jobs:dead")
    assert letter["reason"] == "attempts" and letter["worker"] == "a"
    assert letter["job"] == "t.1" and letter["request"] == "{}"
    assert 0 < queue.redis.pttl("jobs:dead") <= 60_000 and queue.is_empty()


def test_a_stopped_job_is_not_begun(queue):
    asked = queue.asked("t.1")
    queue.stop([STREAM, queue.lease("t.1")], GROUP, asked, 60_000)
    assert queue.taken("a") is None and queue.is_empty()
    # Between the read and the begin.
    asked = queue.asked("t.2")
    entry, _ = queue.taken("a")
    queue.stop([STREAM, queue.lease("t.2")], GROUP, asked, 60_000)
    assert queue.begins("t.2", entry) == STOP and queue.is_empty()


def test_a_stopped_worker_learns_of_it_at_its_next_word(queue):
    asked = queue.asked("t.1")
    entry = queue.begun("t.1")
    queue.says("t.1", 1, "one")
    queue.stop([STREAM, queue.lease("t.1")], GROUP, asked, 60_000)
    assert queue.beats("t.1") == queue.says("t.1", 2, "two") == STOP
    assert queue.finishes("t.1", 2, entry) == STOP
    assert len(queue.said()) == 1 and queue.is_empty()


@pytest.mark.parametrize("begins", [False, True])
def test_a_job_is_stopped_whose_entry_the_server_does_not_know(queue, begins):
    queue.asked("t.1")
    if begins:
        queue.begun("t.1")
    queue.stop([STREAM, queue.lease("t.1")], GROUP, "", 60_000)
    if begins:
        assert queue.beats("t.1") == STOP
    else:
        entry, _ = queue.taken("a")
        assert queue.begins("t.1", entry) == STOP
    assert queue.is_empty()


def test_a_worker_is_told_to_wait(queue):
    queue.asked("t.1")
    queue.begun("t.1")
    assert queue.hold([queue.lease("t.1")], 1) == 1
    assert queue.says("t.1", 1, "one") == queue.beats("t.1") == HOLD
    queue.hold([queue.lease("t.1")], 0)
    assert queue.beats("t.1") == queue.says("t.1", 2, "two") == GO_ON
    # What is over is not held.
    assert queue.hold([queue.lease("t.9")], 1) == 0 and not queue.redis.exists(queue.lease("t.9"))


@pytest.mark.parametrize("word", ["says", "beats"])
def test_nobody_works_for_a_server_that_is_gone(queue, word):
    """The workers themselves remove its jobs."""
    queue.asked("t.1")
    queue.asked("t.2")
    queue.begun("t.1")
    queue.redis.delete(REPLY)
    assert (queue.says("t.1", 1, "one") if word == "says" else queue.beats("t.1")) == STOP
    assert not queue.redis.exists(REPLY) and queue.redis.xlen(STREAM) == 1
    entry, _ = queue.taken("b")
    assert queue.begins("t.2", entry, "b") == STOP
    assert queue.is_empty()


def test_what_a_server_and_its_worker_have_left_is_tidied(queue):
    queue.asked("t.1")
    queue.asked("t.2")
    queue.begun("t.1")
    queue.redis.delete(REPLY)
    assert queue.tidy([STREAM], GROUP, 10, 60_000) == 2 and queue.is_empty()


def test_tidying_loses_no_job_of_a_server_that_lives(queue):
    """Neither one that waits, nor one that is pending without a lease, nor one that is worked on."""
    queue.asked("t.1")
    queue.asked("t.2")
    queue.asked("t.3")
    queue.begun("t.1")
    queue.taken("b")
    queue.redis.xgroup_createconsumer(STREAM, GROUP, "idle")
    assert queue.tidy([STREAM], GROUP, 10, 60_000) == 0
    consumers = {consumer["name"] for consumer in queue.redis.xinfo_consumers(STREAM, GROUP)}
    assert consumers == {"a", "b", "idle"}
    while queue.tidy([STREAM], GROUP, 10, 0) == 0:
        consumers = {consumer["name"] for consumer in queue.redis.xinfo_consumers(STREAM, GROUP)}
        if consumers == {"a", "b"}:
            break
    assert queue.redis.xlen(STREAM) == 3
    assert queue.redis.xpending(STREAM, GROUP)["pending"] == 2


def test_the_reply_stream_is_trimmed_to_what_is_not_read(queue):
    asked = queue.asked("t.1")
    entry = queue.begun("t.1")
    for number in range(1, 1_001):
        queue.says("t.1", number, "word")
    read = queue.redis.xrange(REPLY, count=700)[-1][0]
    keys, arguments = [STREAM, REPLY, queue.lease("t.1")], [GROUP, 60_000]
    last, state = queue.watch(keys, *arguments, read, 1, asked)
    assert last == queue.redis.xrevrange(REPLY, count=1)[0][0] and state == "running"
    left = queue.redis.xrange(REPLY)
    # Whole blocks are trimmed, and none that has what is not read.
    assert 300 <= len(left) <= 300 + 200 and read in [entry for entry, _ in left]
    assert queue.finishes("t.1", 1_001, entry) == 1


def test_an_empty_redis_has_lost_the_job_and_gets_it_again(queue):
    asked = queue.asked("t.1")
    queue.begun("t.1")
    queue.redis.flushall()
    last, state = queue.watch(
        [STREAM, REPLY, queue.lease("t.1")], GROUP, 60_000, "5-0", 1, asked)
    assert (last, state) == ("0-1", "gone") and queue.redis.exists(REPLY)
    assert queue.begins("t.1", asked) == queue.says("t.1", 1, "one") == STOP
    lost, again = [STREAM, queue.lease("t.1")], queue.fields("t.2")
    assert queue.claim(lost, GROUP, asked, 0, 60_000, *again) is None
    assert queue.claim(lost, GROUP, asked, 1, 60_000, *again)
    queue.finishes("t.2", 1, queue.begun("t.2"))
    assert queue.is_empty()
