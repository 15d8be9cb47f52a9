"""A worker that answers turns of Parley from a Redis stream. Your agent goes into `answer`.

    python worker.py redis://127.0.0.1:6379 --jobs 4
    parley serve --llm redis://127.0.0.1:6379 --llm-kind redis-stream

Any number of workers share the turns. SIGTERM lets a worker finish its turns and takes no others.
docs/agents.md describes the entries, and the scripts of lua/."""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import secrets
import signal
import socket
import threading
import traceback

import redis

STOP, GO_ON, HOLD = 0, 1, 2  # What Parley wants, as the scripts return it.
FILES = pathlib.Path(__file__).with_name("lua").glob("*.lua")
SCRIPTS = {file.stem: file.read_text(encoding="utf-8") for file in FILES}


def answer(request, job):
    """Yields the reply to a chat-completions request. The generator is closed when the user interrupts;
    one that thinks for long looks at `job.wish`."""
    for word in f"You said: {request['messages'][-1]['content']}".split(" "):
        yield word + " "


class Job:
    """One turn."""

    def __init__(self, redis, worker, entry, fields):
        self.redis, self.fields, self.said, self.wish = redis, fields, 0, GO_ON
        self.keys = [worker["stream"], fields["lease"], fields["reply"]]
        self.first = [worker["group"], worker["name"], entry, fields["job"], fields["lease_ms"]]
        self.is_over = threading.Event()

    def call(self, script, *arguments):
        call = self.redis.register_script(SCRIPTS[script])
        self.wish = call(keys=self.keys, args=[*self.first, *arguments])

    def say(self, script="say", **piece):
        """Says a piece; waits while Parley can take no more."""
        self.said += 1
        self.call(script, self.said, *itertools.chain(*piece.items()))
        while self.wish == HOLD and not self.is_over.wait(0.1):
            pass

    def beat(self):
        """Renews the lease, on a thread of its own: a slow agent keeps its turn."""
        while self.wish != STOP and not self.is_over.wait(int(self.fields["lease_ms"]) / 5000):
            with contextlib.suppress(redis.RedisError):
                self.call("beat")

    def work(self):
        self.call("begin")
        if self.wish == STOP:
            return
        threading.Thread(target=self.beat, daemon=True).start()
        try:
            for text in answer(json.loads(self.fields["request"]), self):
                self.say(type="text", text=text)
                if self.wish == STOP:
                    return
            self.say("finish", type="end")
        except redis.RedisError:
            raise
        except Exception as error:  # The agent's own: the turn fails, the worker goes on.
            traceback.print_exc()
            self.say("finish", type="error", message=repr(error))
        finally:
            self.is_over.set()


def serve(url, is_stopping, **worker):
    """Takes turns one after another. A worker's name must be its own: it tells whose a turn is."""
    client = redis.Redis.from_url(url, decode_responses=True, protocol=2)
    while not is_stopping.is_set():
        try:
            for _, entries in client.xreadgroup(
                    worker["group"], worker["name"], {worker["stream"]: ">"}, count=1, block=1000):
                for entry, fields in entries:
                    Job(client, worker, entry, fields).work()
        except redis.RedisError as error:
            if "NOGROUP" in str(error):
                with contextlib.suppress(redis.RedisError):
                    client.xgroup_create(worker["stream"], worker["group"], "0", mkstream=True)
            else:
                print(f"{worker['name']}: {error!r}", flush=True)
                is_stopping.wait(1)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="redis://[user:password@]host[:6379][/db]")
    parser.add_argument("--stream", default="parley:jobs")
    parser.add_argument("--group", default="workers")
    parser.add_argument("--jobs", type=int, default=1, help="turns at a time")
    options = parser.parse_args(arguments)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    for number in range(options.jobs):
        threading.Thread(target=serve, args=[options.url, stopping], kwargs={
            "stream": options.stream, "group": options.group,
            "name": f"{socket.gethostname()}:{os.getpid()}:{number}:{secrets.token_hex(4)}"}).start()


if __name__ == "__main__":
    main()
