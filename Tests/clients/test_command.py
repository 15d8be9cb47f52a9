"""The commands as a user sees them: they print addresses, report each mistake in one line, and are
quick and small."""

import asyncio
import json
import os
import re
import subprocess
import time

import pytest
import websockets
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer, resident_bytes
from raw_session import RawSession

SMALL = 18 << 20


def parley_command(*arguments, **environment):
    return subprocess.run(
        [BINARY, *arguments], capture_output=True, text=True, timeout=HANG_GUARD, check=False,
        stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", **environment},
    )


def test_the_start_says_where_everything_is_and_how_long_it_took(figure):
    with ParleyServer() as server:
        log = server.log_path.read_text(encoding="utf-8")
        for address in (f"http://127.0.0.1:{server.port}/\n", server.realtime_url,
                        f"http://127.0.0.1:{server.port}/metrics"):
            assert address in log
        (taken,) = re.findall(r"listening .*\bstart_ms=(\d+)", log)
        figure(f"from main to listening: {taken} ms")


def test_the_pages_that_only_the_start_has_used_go_back():
    """They are 6 of 21 MB. The server has no client here: the first connection, before them or after
    them, brings 4 MB of the program's pages."""
    process = subprocess.Popen(
        [BINARY, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            while "metrics" not in process.stdout.readline():
                assert process.poll() is None
            deadline = time.monotonic() + HANG_GUARD
            while resident_bytes(process.pid) > SMALL:
                assert time.monotonic() < deadline, resident_bytes(process.pid)
                time.sleep(0.01)
        finally:
            process.terminate()


def test_the_models_are_there_before_anybody_speaks_where_it_is_asked_for():
    with ParleyServer("--warm-models") as server:
        deadline = time.monotonic() + HANG_GUARD
        # The recogniser has more than that.
        while server.resident_bytes() < 150 * 1024 * 1024:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.metric("parley_sessions_started_total") == "0"


def test_the_models_come_with_the_first_client_that_will_be_heard():
    async def converse(server, **audio_input):
        """A session that names its audio, or has a typed turn, and sends no audio."""
        async with websockets.connect(server.realtime_url, **PATIENT_WEBSOCKET) as connection:
            session = RawSession(connection)
            settings = {"type": "realtime", "output_modalities": ["text"],
                        "audio": {"input": {"turn_detection": None, **audio_input}}}
            await session.send("session.update", session=settings)
            await session.until("session.updated")
            content = [{"type": "input_text", "text": "hello"}]
            item = {"type": "message", "role": "user", "content": content}
            await session.send("conversation.item.create", item=item)
            await session.send("response.create")
            await session.until("response.done")

    with ParleyServer() as server:
        asyncio.run(converse(server))
        # The recogniser has more than seven times that.
        assert server.resident_bytes() < 30 << 20
        asyncio.run(converse(server, format={"type": "audio/pcm", "rate": 24000}))
        deadline = time.monotonic() + HANG_GUARD
        while server.resident_bytes() < 150 << 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.metric("parley_audio_received_seconds_total") == "0.0"


def test_a_busy_port_is_one_clear_line(parley):
    done = parley_command("serve", "--port", str(parley.port))
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("parley: ")]
    assert len(lines) == 1 and str(parley.port) in lines[0] and "--port" in lines[0]


def test_json_logs_are_one_object_per_line():
    with ParleyServer("--log-format", "json") as server:
        server.get("/nowhere")
    lines = server.log_path.read_text(encoding="utf-8").splitlines()
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    assert any(entry["message"] == "listening" for entry in objects)


@pytest.mark.parametrize(
    ("arguments", "environment", "status", "words"),
    [
        (["serve", "--port", "99999"], {}, 64, ["--port", "65535"]),
        (["serve", "--shrads", "2"], {}, 64, ["--shrads", "shards"]),
        (["serve"], {"PARLEY_MAX_SESSIONS": "many"}, 64, ["PARLEY_MAX_SESSIONS"]),
        (["serve", "--config", "/no/such.yaml"], {}, 64, ["/no/such.yaml"]),
        (["serve", "--config", "/"], {}, 64, ["Is a directory"]),
        (["serve", "--config", "/dev/zero"], {}, 64, ["/dev/zero", "1048576"]),
        (["serve", "--api-keys-file", "/dev/zero", "--log-level", "error"], {}, 1, ["1048576"]),
        (["serve", "--mcp-config", "/dev/zero", "--log-level", "error"], {}, 1, ["1048576"]),
        (["talk", "--wav", "/dev/zero"], {}, 1, ["/dev/zero", "is larger than"]),
        (
            ["serve", "--strict"], {"PARLEY_MAX_SESION": "7"}, 64,
            ["PARLEY_MAX_SESION", "did you mean PARLEY_MAX_SESSIONS"],
        ),
        (["talk", "--url", "ws://h\x1b[2J/"], {}, 64, [r"\u001b"]),
        (["talk", "--url", "ws://127.0.0.1:1/"], {}, 1, ["is the server running"]),
        (["talk", "--wav", "/no/such.wav"], {}, 1, ["/no/such.wav"]),
        (["talk", "--url", "ftp://h/"], {}, 64, ["wss://"]),
    ],
)
def test_a_mistake_is_one_line(arguments, environment, status, words):
    done = parley_command(*arguments, **environment)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr


def test_a_pipe_that_nothing_is_written_to_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    # Takes real time: the server waits ten seconds for the first byte.
    done = parley_command("serve", "--api-keys-file", str(tmp_path / "pipe"))
    assert done.returncode != 0 and "timed out" in done.stderr


def test_a_configuration_may_come_through_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [BINARY, "serve", "--print-config", "--config", str(tmp_path / "pipe")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        # Waits until the other end is open.
        (tmp_path / "pipe").write_text("max-sessions: 7\n")
        shown = process.communicate(timeout=HANG_GUARD)[0]
    assert re.search(r"^max-sessions +7 ", shown, re.MULTILINE)


def test_a_misspelt_variable_is_named_in_the_log():
    with ParleyServer(PARLEY_MAX_SESION="7") as server:
        log = server.log_path.read_text(encoding="utf-8")
    assert "warning  no option has the environment variables PARLEY_MAX_SESION" in log
    done = parley_command("serve", "--print-config", PARLEY_MAX_SESION="7")
    assert done.returncode == 0 and "did you mean PARLEY_MAX_SESSIONS?" in done.stderr


def test_a_deeply_nested_file_is_refused(tmp_path):
    for text in ["[" * 100_000, "a: " + "{a: " * 100_000, "- " * 100_000]:
        (tmp_path / "deep.yaml").write_text(text)
        done = parley_command("serve", "--config", str(tmp_path / "deep.yaml"))
        assert done.returncode == 64 and len(done.stderr.splitlines()) == 1


def test_print_config_shows_units_and_origins_and_hides_the_key():
    done = parley_command(
        "serve", "--print-config", "--max-sessions", "7", PARLEY_LLM_KEY="sk-secret"
    )
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["max-sessions", "7", "sessions", "--max-sessions"] in rows
    assert "sk-secret" not in done.stdout
