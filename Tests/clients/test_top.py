"""`parley top` at a terminal and in a pipe."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from openai import OpenAI
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer

CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A program with its own terminal; its screen is the last complete frame that it wrote."""

    def __init__(self, *arguments, columns=100, rows=20):
        self.rows = rows
        self.written = b""
        pid, self.master = pty.fork()
        if pid == 0:
            os.execv(BINARY, [BINARY, *arguments])
        self.pid = pid
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.master, keys)

    def lines(self):
        """The newest whole frame."""
        frame = self.written.rpartition(b"\x1b[J")[0].rpartition(b"\x1b[H")[2]
        return CONTROL.sub(b"", frame).decode().split("\r\n")

    def wait_for(self, holds):
        """Reads until a frame meets a condition."""
        deadline = time.monotonic() + HANG_GUARD
        while time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                self.written += os.read(self.master, 65_536)
            if self.written and holds(self.lines()):
                return self.lines()
        raise AssertionError("\n".join(self.lines()))

    def wait_for_end(self):
        """The exit status, and whether the terminal's settings were restored."""
        deadline = time.monotonic() + HANG_GUARD
        while time.monotonic() < deadline:
            try:
                if select.select([self.master], [], [], 0.05)[0]:
                    self.written += os.read(self.master, 65_536)
            except OSError:
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                # What it has written last. Behind that a terminal without a program gives EIO.
                with contextlib.suppress(OSError):
                    while rest := os.read(self.master, 65_536):
                        self.written += rest
                os.close(self.master)
                return os.waitstatus_to_exitcode(status), self.written.endswith(b"\x1b[?1049l")
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("it does not end")


def connected(client, model):
    """A session of the SDK, under a model's name."""
    return client.realtime.connect(model=model, websocket_connection_options=PATIENT_WEBSOCKET)


def has(text):
    return lambda lines: any(text in line for line in lines)


def once(port, *arguments):
    return subprocess.run(
        [BINARY, "top", "--url", f"http://127.0.0.1:{port}", "--once", *arguments],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("ending", [b"q", b"\x03", signal.SIGTERM])
def test_sessions_are_shown_at_a_terminal_until_a_key_or_a_signal(parley, ending):
    client = OpenAI(base_url=parley.base_url, api_key="any")
    with connected(client, "top-model") as session:
        assert session.recv().type == "session.created"
        screen = Screen("top", "--url", f"http://127.0.0.1:{parley.port}", "--interval", "0.2")
        lines = screen.wait_for(has("sess_"))
        assert lines[1].startswith("Sessions ") and "idle" in lines[1]
        assert lines[3].startswith("Process ") and " start, " in lines[3]
        assert lines[5].split()[:3] == ["ID", "STATE", "BYTES"]
        screen.type(b"\r")
        screen.wait_for(has("[enter] back"))
        screen.type(b"\r")
        screen.resize(40, 8)
        screen.wait_for(
            lambda lines: len(lines) <= 8 and all(len(line) <= 40 for line in lines))
        screen.type(b"fff")
        screen.wait_for(has("speaking"))
    if isinstance(ending, bytes):
        screen.type(ending)
    else:
        os.kill(screen.pid, ending)
    assert screen.wait_for_end() == (0, True)


def test_a_lost_server_is_waited_for():
    with ParleyServer() as server:
        screen = Screen("top", "--url", f"http://127.0.0.1:{server.port}", "--interval", "0.1")
        screen.wait_for(has("Sessions 0"))
    screen.wait_for(has("trying again"))
    with ParleyServer(port=server.port):
        screen.wait_for(has("By bytes"))
    screen.type(b"q")
    assert screen.wait_for_end() == (0, True)


def test_a_pipe_gets_one_table(parley):
    client = OpenAI(base_url=parley.base_url, api_key="any")
    with connected(client, "top-model") as session:
        assert session.recv().type == "session.created"
        done = once(parley.port, "--limit", "1000")
        assert done.returncode == 0 and "\x1b" not in done.stdout
        (row,) = [line.split() for line in done.stdout.splitlines() if "top-model" in line]
        assert row[0].startswith("sess_") and row[1] == "idle" and int(row[2]) >= 0
    assert once(parley.port, "--state", "busy").returncode == 64


def test_several_servers_are_one_table(parley):
    client = OpenAI(base_url=parley.base_url, api_key="any")
    with ParleyServer() as second, connected(client, "first-node") as session:
        assert session.recv().type == "session.created"
        other = OpenAI(base_url=second.base_url, api_key="any")
        with connected(other, "second-node") as session:
            assert session.recv().type == "session.created"
            urls = ",".join(f"http://127.0.0.1:{port}" for port in [parley.port, second.port, 1])
            done = once(parley.port, "--cluster", urls, "--limit", "1000")
            assert done.returncode == 0, done.stderr
            lines = done.stdout.splitlines()
            titles = next(line.split() for line in lines if line.startswith("ID "))
            nodes = {
                line.split()[-1]: line.split()[titles.index("NODE")]
                for line in lines if line.startswith("sess_")}
            assert nodes["first-node"] == "1" and nodes["second-node"] == "2"
            assert any("127.0.0.1:1 " in line and "cannot connect" in line for line in lines)
    assert once(1, "--cluster", "http://127.0.0.1:1").returncode == 1
    assert once(1, "--cluster", ",").returncode == 64


def test_only_an_operator_gets_an_answer():
    with ParleyServer(PARLEY_API_KEY="sk-operator-0123456789") as server:
        assert once(server.port, "--key", "sk-other-0123456789").returncode == 1
        refused = once(server.port)
        assert refused.returncode == 1 and "operator" in refused.stderr
        assert once(server.port, "--key", "sk-operator-0123456789").returncode == 0
