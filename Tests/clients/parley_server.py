"""A real `parley serve` on a free port, and `parley talk` against it."""

import contextlib
import fcntl
import http.client
import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from event_schema import check_event

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACTIVATION = ROOT / "Tests/clients/activation.py"
# How long any test waits for an event, in seconds. It only ends a test that would wait for ever; no
# test depends on how much earlier the event comes.
HANG_GUARD = 300
# The same for a connection of `websockets`, which has its own limits. It reads ahead of the test without
# a limit: behind messages that no test reads it would not see the server's Close, and wait for it for
# ten seconds.
PATIENT_WEBSOCKET = {"open_timeout": HANG_GUARD, "ping_timeout": HANG_GUARD, "max_queue": None}
# On a busy machine clients and services may be late, so the server's limits on them are as long. A
# test of a limit sets it itself.
PATIENT_LIMITS = {
    f"PARLEY_{name}_MS": "600000" for name in (
        "HEADER_TIMEOUT", "REQUEST_GRACE", "LATE_AUDIO_TOLERANCE", "RESUME_TIMEOUT",
        "LLM_FIRST_TOKEN_TIMEOUT", "SERVICE_TIMEOUT", "SERVICE_TOTAL_TIMEOUT", "MCP_LIST_TIMEOUT",
        "MCP_CALL_TIMEOUT", "UNACKNOWLEDGED_TIMEOUT",
    )
} | {
    # Its most. A client that speaks in real time may be late in the middle of a word, which would end its
    # turn. A test whose client sends nothing in silence sets it itself.
    "PARLEY_AUDIO_GAP_MS": "60000",
}
# Clients of tests stand for those that are elsewhere, and are not told why a service has failed.
STRANGERS = {"PARLEY_EXPLAIN_FAILURES": "false"}
BINARY = os.environ.get("PARLEY_TEST_BINARY", str(ROOT / ".build/release/parley"))


# The ports of tests. The kernel gives connections others (ip_local_port_range begins at 32,768), so none
# takes a port between its choice and the moment when a program listens on it.
PORTS = range(10_000, 20_000)


def free_port():
    """A port on which no program listens now. Tests of several processes share a counter, so that each
    port is given once before any comes again."""
    path = pathlib.Path(tempfile.gettempdir()) / f"parley-test-port-{os.getuid()}"
    with open(path, "a+", encoding="ascii") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or PORTS.start)
        for _ in PORTS:
            port = port + 1 if port + 1 in PORTS else PORTS.start
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
                counter.truncate(0)
                counter.write(str(port))
                return port
    raise RuntimeError(f"no port of {PORTS} is free")


NUMBERS = itertools.count(1)
# The servers of this process that have been started, for the report of a test that fails.
STARTED = []


def resident_bytes(pid):
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


class ParleyServer:
    """Runs from `with` to its end; its log goes to `.build/test/`.

    With `listener` the server inherits that socket, as from systemd, instead of a port. With
    `niceness` it runs with that niceness."""

    def __init__(self, *arguments, port=None, listener=None, niceness=0, **environment):
        self.port = listener.getsockname()[1] if listener else port or free_port()
        self.arguments = [BINARY, "serve", "--port", str(self.port), *arguments]
        self.inherited = [listener.fileno()] if listener else []
        if listener:
            self.arguments = [
                sys.executable, str(ACTIVATION), str(listener.fileno()), *self.arguments
            ]
        if niceness:
            self.arguments = ["nice", "-n", str(niceness), *self.arguments]
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")
        } | PATIENT_LIMITS | STRANGERS | environment
        logs = ROOT / ".build/test"
        logs.mkdir(parents=True, exist_ok=True)
        self.log_path = logs / f"serve-{os.getpid()}-{next(NUMBERS)}.log"
        self.process = None
        self.expected_status = 0

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def realtime_url(self):
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def __enter__(self):
        if self not in STARTED:
            STARTED.append(self)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                self.arguments, cwd=ROOT, env=self.environment, stdout=log, stderr=log,
                pass_fds=self.inherited,
            )
        deadline = time.monotonic() + HANG_GUARD
        while not (self.is_alive() and self.has_announced()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"the server did not start: {self.log_path.read_text()}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            status = self.process.wait(HANG_GUARD)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise RuntimeError("the server did not end after SIGTERM") from None
        if status != self.expected_status:
            raise RuntimeError(f"the server ended with {status}; see {self.log_path}")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def is_alive(self):
        try:
            return self.get("/healthz")[0] == 200
        except OSError:
            return False

    def has_announced(self):
        """Whether it has printed its addresses, which it does once it listens."""
        return "/metrics" in self.log_path.read_text(encoding="utf-8")

    def get(self, path, headers=None):
        """Sends one GET: returns status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_GUARD)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def metric(self, name):
        """The value of a metric in /metrics; the name includes labels."""
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.startswith(f"{name} "):
                return line.split()[-1]
        raise KeyError(name)

    def resident_bytes(self):
        """Resident memory of the process."""
        return resident_bytes(self.process.pid)

    def talk(self, *arguments, typed=None, timeout=HANG_GUARD):
        """Runs `parley talk`, and returns the finished process."""
        done = subprocess.run(
            [BINARY, "talk", "--url", self.realtime_url, *arguments],
            input=typed, stdin=None if typed is not None else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, check=False,
        )
        if "--json" in arguments:
            for line in done.stdout.splitlines():
                if not line.startswith('{"type":"parley.'):
                    check_event(line)
        return done

    def turns(self, *arguments):
        """Runs `parley talk --json`, and returns its output for each turn."""
        done = self.talk("--json", *arguments)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event for event in events if event["type"] == "parley.talk.turn"]
