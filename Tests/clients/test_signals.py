"""Signals to real servers: SIGHUP, SIGUSR1 and SIGUSR2 never end a server, whatever it is doing."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import time

from event_schema import server_event
import pytest
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer, free_port
from scripted_model import HALVES, ScriptedModel
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

NOTHING = "nothing to reload"
NO_LOG = "no log to reopen"
STANDING = [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]


def wait_for_log(server, *texts):
    """Waits until the log has all texts; fails if the server ends before that."""
    while not all(text in server.log_path.read_text() for text in texts):
        assert server.process.poll() is None, "the server has ended"
        time.sleep(0.01)
    return server.log_path.read_text()


@contextlib.contextmanager
def reply_in_flight(server):
    """A session whose model has sent the first half of its reply and waits before the second."""
    with connect(server.realtime_url + "?model=m", **PATIENT_WEBSOCKET) as connection:
        session = {"type": "realtime", "output_modalities": ["text"], "instructions": "halfway"}
        connection.send(json.dumps({"type": "session.update", "session": session}))
        item = {"type": "message", "role": "user"}
        item["content"] = [{"type": "input_text", "text": "go on"}]
        connection.send(json.dumps({"type": "conversation.item.create", "item": item}))
        connection.send(json.dumps({"type": "response.create"}))
        said = ""
        while said != HALVES[0]:
            said += delta(connection)[0]
        yield connection


def delta(connection):
    """The text of the next event, and whether it ends the response."""
    event = server_event(connection.recv(timeout=HANG_GUARD))
    is_text = event["type"] == "response.output_text.delta"
    return (event["delta"] if is_text else ""), event["type"] == "response.done"


def rest_of_reply(connection):
    said, is_over = "", False
    while not is_over:
        text, is_over = delta(connection)
        said += text
    return said


def test_a_reply_in_flight_survives_signals_that_ask_for_nothing():
    with ScriptedModel() as model, ParleyServer("--llm", model.url) as server:
        with reply_in_flight(server) as connection:
            for number in STANDING:
                server.process.send_signal(number)
            wait_for_log(server, NOTHING, "signal=SIGUSR1", "signal=SIGUSR2")
            model.second_half.set()
            assert rest_of_reply(connection) == HALVES[1]
        assert server.get("/healthz")[0] == 200


def test_sigquit_drains_as_sigterm_does():
    options = ["--drain-jitter-ms", "0", "--drain-timeout-ms", "3600000"]
    with ScriptedModel() as model, ParleyServer("--llm", model.url, *options) as server:
        with reply_in_flight(server) as connection:
            server.process.send_signal(signal.SIGQUIT)
            wait_for_log(server, "draining")
            # The other signals do not end a draining server either.
            server.process.send_signal(signal.SIGHUP)
            server.process.send_signal(signal.SIGUSR1)
            wait_for_log(server, NOTHING, "signal=SIGUSR1")
            model.second_half.set()
            assert rest_of_reply(connection) == HALVES[1]
            with contextlib.suppress(ConnectionClosed):
                while True:
                    connection.recv(timeout=HANG_GUARD)
            assert connection.protocol.close_code == 1012
        assert server.process.wait(HANG_GUARD) == 0


def test_signals_before_the_server_is_up_are_handled_once_it_is(tmp_path):
    fifo = tmp_path / "config"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [BINARY, "serve", "--port", "0", "--config", fifo],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    # The open returns when the server has opened the other end to read its configuration.
    with open(fifo, "w", encoding="ascii") as config:
        for number in STANDING:
            process.send_signal(number)
        config.write("log-level: info\n")
    missing = {NOTHING, "SIGUSR1", "SIGUSR2"}
    while missing:
        line = process.stdout.readline()
        assert line, "the server has ended"
        missing = {text for text in missing if text not in line}
    process.terminate()
    process.stdout.read()
    assert process.wait(HANG_GUARD) == 0


def test_a_storm_of_signals_becomes_a_few_reloads(tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text("a-key-0123456789abcdef\n")
    with ParleyServer("--api-keys-file", str(keys)) as server:
        for _ in range(1_000):
            server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "credentials reloaded")
        assert server.get("/healthz")[0] == 200
    assert 1 <= server.log_path.read_text().count("credentials reloaded") < 1_000


@pytest.mark.parametrize("in_its_place", [lambda path: None, os.mkfifo, os.mkdir])
def test_a_file_that_cannot_be_read_leaves_everything_as_it_was(tmp_path, in_its_place):
    """A pipe takes the ten seconds that the server waits for a writer (WholeFile)."""
    keys = tmp_path / "keys.txt"
    keys.write_text("a-key-0123456789abcdef\n")
    with ParleyServer("--api-keys-file", str(keys)) as server:
        keys.unlink()
        in_its_place(keys)
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "credentials not reloaded")
        authorization = {"Authorization": "Bearer a-key-0123456789abcdef"}
        assert server.get("/v1/models", authorization)[0] != 401
        assert server.get("/v1/models")[0] == 401


def test_a_closed_terminal_leaves_the_server_to_its_sessions():
    server = ParleyServer(port=free_port())
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(BINARY, server.arguments, server.environment)
    written = b""
    while b"/metrics" not in written:
        written += os.read(terminal, 65_536)
    # The server leads the terminal's session, so it gets SIGHUP, and its log can no longer be
    # written.
    os.close(terminal)
    for _ in range(20):
        assert server.get("/nowhere")[0] == 404
    os.kill(pid, signal.SIGUSR1)
    assert server.get("/healthz")[0] == 200
    os.kill(pid, signal.SIGTERM)
    assert os.waitpid(pid, 0)[1] == 0
