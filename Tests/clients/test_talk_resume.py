"""`parley talk` over a network that breaks: it comes back to its session, and no word is lost or said
twice. A server that is no Parley is not bothered."""

import asyncio
import base64
import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import wave

import pytest
import websockets
import websockets.asyncio.server
from cutting_proxy import CuttingProxy
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from redis_server import RedisServer
from scripted_model import numbered

LOST = "connection lost; coming back…"
TAKEN_OVER = "another connection has taken the session over"
ANEW = "the session is lost: the server has begun the conversation anew"


def talk(url, *arguments, typed=None):
    """Runs `parley talk`, and returns the finished process."""
    return subprocess.run(
        [BINARY, "talk", "--url", url, *arguments], input=typed,
        stdin=None if typed is not None else subprocess.DEVNULL, capture_output=True, text=True,
        timeout=HANG_GUARD, check=False)


def turns(done):
    """What `--json` tells of each turn."""
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event for event in events if event["type"] == "parley.talk.turn"]


def words(count):
    return "".join(numbered(count))


# ---- A network that breaks ----


def test_every_word_of_a_typed_conversation_comes_once(piped):
    # Each cut is in the middle of whatever is under way: often of an event.
    with CuttingProxy(piped.port, cuts=[6_000] * 8) as proxy:
        done = talk(
            proxy.realtime_url, "--json", "--text", "number 120", "--text", "number 5")
    assert [turn["reply"] for turn in turns(done)] == [words(120), words(5)]
    assert proxy.connections >= 5
    queries = [urllib.parse.parse_qs(request.split()[1]) for request in proxy.requests]
    assert [query["resume"] for query in queries[:1]] == [["true"]]
    assert all(query["resume"][0].startswith("sess_") for query in queries[1:])


def test_the_user_sees_the_loss_and_the_return(piped):
    with CuttingProxy(piped.port, cuts=[6_000]) as proxy:
        done = talk(proxy.realtime_url, "--text", "number 60")
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert shown.index(f"({LOST})") < shown.index("(back)")
    assert shown.count(LOST) == shown.count("(back)") == 1
    said = [word for line in shown.splitlines() if "(" not in line for word in line.split()]
    assert said == ["agent:", *numbered_words(60)] or said == [
        # The reply goes on behind a label of its own.
        *["agent:", *numbered_words(60)[:said.index("agent:", 1) - 1]],
        *["agent:", *numbered_words(60)[said.index("agent:", 1) - 1:]],
    ]


def numbered_words(count):
    return [word.strip() for word in numbered(count)]


@pytest.mark.parametrize("sent", range(20, 320, 50))
def test_a_line_that_is_lost_on_its_way_is_sent_again(piped, sent):
    """Cut off in the settings, in the line, or in the request for its answer."""
    with CuttingProxy(piped.port, cuts=[sent], of_server=False) as proxy:
        done = talk(proxy.realtime_url, "--json", "--text", "number 5")
    assert [turn["reply"] for turn in turns(done)] == [words(5)]
    assert proxy.connections == 2
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert kinds.count("response.created") == kinds.count("response.done") == 1


def test_a_path_that_has_died_is_noticed(piped):
    """Both sides keep an open socket: only a ping without an answer shows it."""
    with CuttingProxy(piped.port) as proxy, Talk(proxy.realtime_url) as chat:
        chat.type("number 3")
        chat.until("w2")
        proxy.freeze()
        chat.type("number 4")
        chat.until(LOST)
        chat.until("w3")
        status, _, errors = chat.end()
        assert (status, proxy.connections) == (0, 2), errors


@pytest.mark.parametrize("transport", ["json", "binary"])
def test_a_spoken_reply_has_neither_a_gap_nor_a_piece_twice(parley, tmp_path, transport):
    """In real time: the reply must be in flight at each cut, also where the relay is late by seconds."""
    options = ["--format", "pcm", "--transport", transport, "--text", "count to 15"]

    def length(url, name):
        done = talk(url, *options, "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        with wave.open(str(tmp_path / name)) as file:
            return file.getnframes()

    # In base64, 300 ms are 19,200 bytes.
    with (
        CuttingProxy(parley.port, cuts=[30_000] * 3) as proxy,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        expected = pool.submit(length, parley.realtime_url, "whole.wav")
        assert length(proxy.realtime_url, "cut.wav") == expected.result()
        assert proxy.connections == 4


def test_a_recording_waits_for_the_connection(parley, speech, tmp_path):
    """Takes as long as the recording, which `parley talk` sends as a microphone would, and the reply."""
    recording = tmp_path / "speech.wav"
    with wave.open(str(recording), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(speech)
    # In the middle of the words: 50 packets of about 100 bytes a second.
    with CuttingProxy(parley.port, cuts=[7_000], of_server=False) as proxy:
        done = talk(proxy.realtime_url, "--json", "--wav", str(recording))
        assert proxy.connections == 2
    (turn,) = turns(done)
    assert turn["heard"] and turn["reply"]


def test_the_loudspeaker_gets_every_sample_of_a_reply_once(piped, speech, tmp_path):
    """In real time, as a microphone and a loudspeaker. The reply is in flight at each cut, also where the
    relay is late by seconds."""
    sound_programs(tmp_path, speech)
    reply = "one two three four five six seven eight nine ten eleven twelve " * 2
    options = ["--mic", "--json", "--format", "pcm", "--instructions", f"write {reply}"]
    # In base64, 20 ms of the reply are 1.5 kB.
    with (
        CuttingProxy(piped.port, cuts=[40_000] * 2) as proxy,
        Talk(
            proxy.realtime_url, *options, PATH=f"{tmp_path}:{os.environ['PATH']}") as conversation,
    ):
        conversation.until("response.done")
        conversation.process.send_signal(signal.SIGINT)
        status, _, errors = conversation.end()
        assert (status, errors) == (130, "parley: interrupted\n")
        assert proxy.connections == 3
    events = [json.loads(line) for line in conversation.lines]
    sounds = [event for event in events if event["type"] == "response.output_audio.delta"]
    assert len({event["item_id"] for event in sounds}) == 1
    sound = b""
    for event in sounds:
        assert event.get("audio_start_ms", len(sound) // 48) == len(sound) // 48
        sound += base64.b64decode(event["delta"])
    starts = [event["audio_start_ms"] for event in sounds if "audio_start_ms" in event]
    assert starts and starts[-1] > 0
    assert (tmp_path / "played.raw").read_bytes() == sound
    (heard, said) = (
        event["transcript"] for event in events
        if event["type"] in ("conversation.item.input_audio_transcription.completed",
                             "response.output_audio_transcript.done"))
    assert "forward" in heard and said == reply


def sound_programs(folder, speech):
    """Stand-ins of arecord, which records the speech and then silence, and of aplay, which plays to
    the end of what it gets."""
    (folder / "speech.raw").write_bytes(speech)
    (folder / "arecord").write_text(f"""#!{sys.executable}
import sys, time
speech = open({str(folder / "speech.raw")!r}, "rb").read()
begin, position = time.monotonic(), 0
while True:
    sys.stdout.buffer.write(speech[position : position + 960].ljust(960, bytes(1)))
    sys.stdout.buffer.flush()
    position += 960
    time.sleep(max(0, begin + position / 48000 - time.monotonic()))
""")
    (folder / "aplay").write_text(f"#!/bin/sh\ntrap '' TERM\nexec cat >> {folder / 'played.raw'}\n")
    for name in ("arecord", "aplay"):
        (folder / name).chmod(0o755)


# ---- The end of a session ----


@pytest.mark.parametrize("end", ["of the input", "by a signal"])
def test_a_session_does_not_wait_for_a_client_that_has_ended(model, end):
    with ParleyServer(
        "--llm", model.url, "--model", "scripted", PARLEY_LLM_KEY="the-key") as server:
        with Talk(server.realtime_url) as chat:
            chat.type("number 3")
            chat.until("w2")
            if end == "by a signal":
                chat.process.send_signal(signal.SIGINT)
            status, _, errors = chat.end()
        assert (status, errors) == (
            (130, "parley: interrupted\n") if end == "by a signal" else (0, ""))
        until(lambda: server.metric("parley_sessions") == "0")
        assert server.metric('parley_detachments_total{outcome="waits"}') == "0"


class Talk:
    """A chat whose output is read while it runs."""

    def __init__(self, url, *arguments, **environment):
        self.process = subprocess.Popen(
            [BINARY, "talk", "--url", url, *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | environment)
        self.lines = []
        self.guard = threading.Timer(HANG_GUARD, self.process.kill)
        self.guard.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.guard.cancel()
        self.process.kill()
        self.process.communicate()

    def type(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, text):
        """Reads to the first line with the text."""
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"no {text!r}: {self.process.stderr.read()}")

    def end(self):
        """Ends the input. Returns the status, the rest of the output, and the errors."""
        output, errors = self.process.communicate()
        return self.process.returncode, output, errors


def test_a_session_that_is_taken_over_ends_the_command(piped):
    async def take_over(resume, offset):
        query = urllib.parse.urlencode(
            {"resume": resume["handle"], "epoch": resume["epoch"], "offset": offset})
        async with websockets.connect(
            f"{piped.realtime_url}?{query}", **PATIENT_WEBSOCKET
        ) as connection:
            assert json.loads(await connection.recv())["recovered"]

    with Talk(piped.realtime_url, "--json") as chat:
        created = json.loads(chat.until("session.created"))
        # What the command has is forgotten once it has answered a ping.
        offset = json.loads(chat.until("session.updated"))["offset"]
        asyncio.run(take_over(created["resume"], offset))
        # The end of the input would end the command too.
        chat.process.wait()
        status, _, errors = chat.end()
    assert status == 1 and TAKEN_OVER in errors


def test_a_chat_whose_session_is_lost_goes_on_anew(piped, model):
    with (
        ParleyServer(
            "--llm", model.url, "--model", "scripted", PARLEY_LLM_KEY="the-key") as other,
        CuttingProxy(piped.port) as proxy, Talk(proxy.realtime_url) as chat,
    ):
        chat.type("number 3")
        chat.until("w2")
        proxy.target = other.port
        proxy.cut()
        chat.until(LOST)
        chat.until(ANEW)
        chat.type("number 4")
        chat.until("w3")
        status, _, errors = chat.end()
    assert status == 0, errors


def test_a_scripted_conversation_does_not_begin_anew(piped, parley):
    with CuttingProxy(piped.port, cuts=[6_000]) as proxy:
        proxy.target = piped.port
        moved = threading.Event()

        class Moving(list):
            """Sends later connections to the other server."""

            def append(self, request):
                super().append(request)
                proxy.target = parley.port
                moved.set()

        proxy.requests = Moving()
        done = talk(proxy.realtime_url, "--text", "number 60")
        assert moved.is_set()
    assert done.returncode == 1 and ANEW in done.stderr


def test_it_keeps_trying_while_the_network_is_down(piped):
    with CuttingProxy(piped.port) as proxy, Talk(proxy.realtime_url) as chat:
        chat.type("number 3")
        chat.until("w2")
        proxy.is_closed = True
        proxy.cut()
        chat.until(LOST)
        proxy.is_closed = False
        chat.until("(back)")
        chat.type("number 4")
        chat.until("w3")
        status, _, errors = chat.end()
    assert status == 0, errors


def test_without_resume_a_lost_connection_ends_the_command(piped):
    with CuttingProxy(piped.port, cuts=[6_000]) as proxy:
        done = talk(proxy.realtime_url, "--no-resume", "--text", "number 60")
        assert proxy.connections == 1 and "resume" not in proxy.requests[0]
    assert done.returncode == 1 and "connection" in done.stderr


@pytest.mark.skipif(not RedisServer.INSTALLED, reason="no redis-server: apt install redis-server")
def test_a_conversation_goes_on_at_another_server_after_a_restart(tmp_path):
    """The rest of a spoken reply is said there, and the conversation is the same."""
    def node(redis, *options):
        return ParleyServer("--store", redis.url, "--drain-jitter-ms", "500", *options)

    with (
        # The second sends its part at once, and not at the pace of its playing.
        RedisServer() as redis, node(redis) as first, node(redis, "--playout-lead-ms", "60000") as second,
        CuttingProxy(first.port) as proxy,
    ):
        for each in (first, second):
            until(lambda each=each: each.get("/readyz?store")[0] == 200)
        with Talk(
            # Longer than a busy machine takes to end the first server.
            proxy.realtime_url, "--json", "--text", "count to 20", "--text", "Goodbye",
            "--out", str(tmp_path / "reply.wav"),
        ) as conversation:
            for _ in range(20):
                conversation.until("response.output_audio.delta")
            proxy.target = second.port
            first.process.terminate()
            status, output, errors = conversation.end()
        assert status == 0, errors
        events = [json.loads(line) for line in output.splitlines()]
        (back,) = (event for event in events if event["type"] == "parley.resumed")
        assert back["recovered"]
        dones = [event["response"] for event in events if event["type"] == "response.done"]
        assert [done["status"] for done in dones] == ["incomplete", "completed", "completed"]
        assert dones[0]["status_details"]["reason"] == "handed_over"
        # The end of the first turn's reply comes at the second server.
        rest = "".join(
            event["delta"] for event in events
            if event["type"] == "response.output_audio_transcript.delta"
            and event["response_id"] == dones[1]["id"])
        assert rest.endswith("19, 20.") and rest.split(",")[0] not in ("1", "20.")
        assert second.metric('parley_resumes_total{outcome="recovered"}') == "1"


def until(is_true):
    deadline = time.monotonic() + HANG_GUARD
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- Other servers of the protocol ----


@contextlib.contextmanager
def other_server(refuses):
    """A server without the extension that breaks off in its answer. Yields its URL and the requests."""
    requests = []

    def judge(_connection, request):
        requests.append(request.path)
        if refuses and "resume" in request.path:
            return _connection.respond(400, "unknown parameter\n")
        return None

    async def serve(connection):
        async def send(kind, **fields):
            await connection.send(json.dumps({"type": kind, "event_id": "e", **fields}))

        await send("session.created", session={"id": "sess_x", "type": "realtime"})
        async for text in connection:
            event = json.loads(text)
            if event["type"] == "session.update":
                assert set(event) == {"type", "session"}
                assert set(event["session"]) == {"type", "output_modalities"}
                await send("session.updated", session={"id": "sess_x", "type": "realtime"})
            elif event["type"] == "conversation.item.create":
                assert set(event["item"]) == {"type", "role", "content"}
            elif event["type"] == "response.create":
                await send("response.created", response={"id": "r"})
                await send("response.output_text.delta", item_id="i", delta="half")
                connection.transport.abort()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start():
        return await websockets.asyncio.server.serve(
            serve, "127.0.0.1", 0, process_request=judge, **PATIENT_WEBSOCKET)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(HANG_GUARD)
    async def stop():
        server.close()
        await server.wait_closed()

    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime", requests
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(HANG_GUARD)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(HANG_GUARD)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_server_without_the_extension_gets_the_protocol_alone(refuses):
    with other_server(refuses) as (url, requests):
        done = talk(url, "--text", "hello")
    assert done.returncode == 1 and "half" in done.stdout and LOST not in done.stdout
    assert requests == [
        "/v1/realtime?model=default&resume=true",
        *(["/v1/realtime?model=default"] if refuses else []),
    ]
