"""Recordings of real conversations: both sides in files of one timeline, the agent as far as it was
heard; what a restart and a kill leave; and the PUT to a server that checks the signature of S3."""

import array
import asyncio
import base64
import contextlib
import datetime
import hashlib
import hmac
import http.server
import itertools
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import urllib.parse
import wave

import pytest
import websockets
from microphone import OpusEncoder
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from raw_session import RawSession
from realtime_session import run
from redis_server import RedisServer
from resuming_caller import Caller
from test_records import ask
from test_signals import wait_for_log

AGREED = {"consent": True}
# Servers of tests in which only files count load no models, which takes a second of processor time.
DEAF = ("--models", "/nonexistent")


def recording(folder, side, ending=".opus"):
    """The only file of a side."""
    found = sorted(pathlib.Path(folder).glob(f"*/*.{side}{ending}"))
    assert len(found) == 1, found
    return found[0]


def ogg_packets(path):
    """The packets of an Ogg stream behind its two headers, read without any library of the server."""
    content, packets, partial = path.read_bytes(), [], b""
    place = 0
    while place < len(content):
        assert content[place : place + 4] == b"OggS"
        count = content[place + 26]
        lacing = content[place + 27 : place + 27 + count]
        place += 27 + count
        for length in lacing:
            partial += content[place : place + length]
            place += length
            if length < 255:
                packets.append(partial)
                partial = b""
    return packets[2:]


def spoken_packets(path):
    """The packets of a file without those of the recorder's own silence, which have 3 bytes at most."""
    return [packet for packet in ogg_packets(path) if len(packet) > 3]


def check_sound(path, heard_ms):
    """Requires that a file has as much sound as was heard. Where the voice was late there is a pause in it,
    and each piece of sound may begin and end within a packet."""
    pieces = [
        20 * len(list(packets))
        for is_sound, packets in itertools.groupby(ogg_packets(path), lambda packet: len(packet) > 3)
        if is_sound]
    print(f"{heard_ms} ms heard, {pieces} ms of sound recorded")
    assert heard_ms - 40 <= sum(pieces) <= heard_ms + 40 * len(pieces)


def decoded(path):
    """The samples of a file at 48 kHz, by opus-tools."""
    command = ["opusdec", "--quiet", "--force-wav", str(path), "-"]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    start = output.index(b"data") + 8
    return array.array("h", output[start : start + (len(output) - start) // 2 * 2])


def loud_ms(samples, threshold=600):
    """The first and the last time at which something is heard."""
    step = 480
    places = [
        place // 48 for place in range(0, len(samples), step)
        if any(abs(sample) > threshold for sample in samples[place : place + step : 4])
    ]
    return (places[0], places[-1] + 10) if places else None


def opusinfo(path):
    return subprocess.run(
        ["opusinfo", str(path)], check=True, capture_output=True, text=True).stdout


@contextlib.asynccontextmanager
async def session(server, key=None, **fields):
    """A session with settings; its events so far are read to `session.updated`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with websockets.connect(
        server.realtime_url, max_size=None, additional_headers=headers, **PATIENT_WEBSOCKET
    ) as connection:
        raw = RawSession(connection)
        raw.id = (await raw.until("session.created"))["session"]["id"]
        await raw.send("session.update", session={"type": "realtime", **fields})
        if "recording" in fields:
            raw.is_recorded = (await raw.until("parley.recording.updated"))["active"]
        await raw.until("session.updated")
        yield raw


async def say(raw, packets):
    """Sends packets at once, and waits until the server has them."""
    for packet in packets:
        await raw.connection.send(packet)
    await raw.send("session.update", session={"type": "realtime"})
    await raw.until("session.updated")


async def play(raw, packets):
    """Sends packets of 20 ms as they would be spoken."""
    begin = time.monotonic()
    for index, packet in enumerate(packets):
        await asyncio.sleep(max(0, begin + 0.02 * (index + 1) - time.monotonic()))
        await raw.connection.send(packet)


def opus(samples):
    encoder = OpusEncoder()
    size = 960
    packets = [
        encoder.encode(array.array("h", samples[start : start + size]))
        for start in range(0, len(samples) - size + 1, size)
    ]
    encoder.close()
    return packets


def wait_for(condition):
    """Waits until a condition is true, and returns its value."""
    deadline = time.monotonic() + HANG_GUARD
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def audio(input_format, output_format="audio/pcm", **turn_detection):
    rate = {"rate": 24000} if output_format == "audio/pcm" else {}
    return {
        "input": {"format": {"type": input_format}, "turn_detection": turn_detection or None},
        "output": {"format": {"type": output_format, **rate}},
    }


async def request_long_reply(raw):
    """Asks for a reply without pauses that is longer than a busy machine takes to interrupt it."""
    text = "one two three four five six seven eight nine ten " * 10
    await raw.send("conversation.item.create", item={
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    await raw.send("response.create")


def test_a_conversation_with_an_interruption(tmp_path, speech):
    """In real time: the user speaks while the reply is being played."""
    # "Go forward", and the silence after which that was a turn.
    packets = opus(speech[: 2 * 24_000 * 3 // 2] + bytes(2 * 24_000 * 7 // 10))
    heard = {}

    async def test(server):
        async with session(
            server, recording=AGREED, output_modalities=["audio"],
            audio=audio(
                "audio/opus", "audio/opus", type="server_vad", create_response=False),
        ) as raw:
            assert raw.is_recorded
            heard["id"] = raw.id
            speaking = asyncio.create_task(play(raw, packets))
            await raw.until("input_audio_buffer.committed")
            await speaking
            await request_long_reply(raw)
            await raw.until("response.output_audio.delta")
            # The reply goes on while the user speaks again, and interrupts it.
            speaking = asyncio.create_task(play(raw, packets))
            heard["ms"] = (await raw.until("conversation.item.truncated"))["audio_end_ms"]
            await speaking

    options = ["--recordings", "asked", "--recordings-folder", str(tmp_path)]
    with ParleyServer(*options, "--min-interruption-ms", "0") as server:
        run(test(server))
        wait_for(lambda: server.metric("parley_recordings_finished_total") == "1")
        assert server.metric("parley_recordings") == "0"
        assert server.metric("parley_recording_dropped_bytes_total") == "0"
    user, agent = (recording(tmp_path, side) for side in ("user", "agent"))
    assert user.name == f"{heard['id']}.user.opus"
    # The very packets that the client has sent, in their order.
    assert [packet for packet in spoken_packets(user) if packet in set(packets)] == 2 * packets
    sides = decoded(user), decoded(agent)
    assert len(sides[0]) == len(sides[1])
    for path in (user, agent):
        assert "WARNING" not in opusinfo(path).upper()
    # It ends where it was cut. The voice begins with some silence of its own.
    check_sound(agent, heard["ms"])
    begin, end = loud_ms(sides[1])
    assert end - begin >= heard["ms"] - 700
    assert user.stat().st_mode & 0o777 == 0o600
    out = tmp_path / "both.wav"
    done = subprocess.run(
        [BINARY, "sessions", "export", heard["id"], "--stereo", "--out", str(out),
         "--recordings-folder", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with wave.open(str(out)) as mixed:
        assert mixed.getnchannels() == 2 and mixed.getframerate() == 24000
        assert abs(mixed.getnframes() * 2 - len(sides[0])) <= 2
        frames = array.array("h", mixed.readframes(mixed.getnframes()))
    assert loud_ms(frames[0::2], 600)[0] * 2 == pytest.approx(loud_ms(sides[0])[0], abs=40)


@pytest.mark.parametrize("transport", ["json", "binary"])
def test_the_agents_file_ends_at_what_was_heard(tmp_path, transport):
    told = {}

    async def test(server):
        fields = audio("audio/pcm")
        fields["output"]["transport"] = transport
        async with session(
            server, recording=AGREED, output_modalities=["audio"], audio=fields,
        ) as raw:
            await request_long_reply(raw)
            received = 0
            while received < 24000 * 2 * 1.2:
                message = await asyncio.wait_for(raw.connection.recv(), HANG_GUARD)
                if isinstance(message, bytes):
                    received += len(message)
                elif (event := json.loads(message))["type"] == "response.output_audio.delta":
                    received += len(base64.b64decode(event["delta"]))
            await raw.send("response.cancel")
            await raw.send("output_audio_buffer.clear")
            while True:
                message = await asyncio.wait_for(raw.connection.recv(), HANG_GUARD)
                if isinstance(message, bytes):
                    continue
                event = json.loads(message)
                if event["type"] == "conversation.item.truncated":
                    told["ms"] = event["audio_end_ms"]
                    break
            # A second of silence follows in both files; a recording is as long as its session.
            await asyncio.sleep(1)

    with ParleyServer(
        *DEAF, "--recordings", "asked", "--recordings-folder", str(tmp_path)
    ) as server:
        run(test(server))
    agent = decoded(recording(tmp_path, "agent"))
    begin, end = loud_ms(agent)
    check_sound(recording(tmp_path, "agent"), told["ms"])
    # The reply begins and ends with some silence of the voice's own.
    assert end - begin >= told["ms"] - 700
    assert len(agent) // 48 >= end + 800
    assert len(decoded(recording(tmp_path, "user"))) == len(agent)


def test_without_consent_no_file(tmp_path, speech):
    keys = tmp_path / "keys"
    keys.write_text(
        "sk-asked-0123456789abcdef recording=asked\nsk-never-0123456789abcdef recording=none\n"
        "sk-always-0123456789abcdef recording=all operator\n")
    folder = tmp_path / "recordings"

    async def speak(server, key, **fields):
        async with session(server, key=key, audio=audio("audio/pcm"), **fields) as raw:
            await say(raw, [speech[:960]] * 25)
            return getattr(raw, "is_recorded", None)

    async def test(server):
        assert await speak(server, "sk-asked-0123456789abcdef") is None
        assert await speak(server, "sk-never-0123456789abcdef", recording=AGREED) is False
        assert await speak(
            server, "sk-asked-0123456789abcdef", recording={"consent": False}) is False
        async with session(
            server, key="sk-asked-0123456789abcdef", audio=audio("audio/pcm"), recording=AGREED
        ) as raw:
            await say(raw, [speech[:960]] * 60)
            await raw.send(
                "session.update", session={"type": "realtime", "recording": {"consent": False}})
            assert not (await raw.until("parley.recording.updated"))["active"]

    with ParleyServer(
        *DEAF, "--api-keys-file", str(keys), "--recordings-folder", str(folder)
    ) as server:
        run(test(server))
        run(speak(server, "sk-always-0123456789abcdef"))
    assert len(list(folder.glob("*/*"))) == 2


def test_a_kill_costs_a_second_and_the_next_start_ends_the_files(tmp_path, speech):
    """All but the last second is in the file of a session that goes on, and is in the complete one."""
    packets = opus(speech + speech)
    options = [*DEAF, "--recordings", "all", "--recordings-folder", str(tmp_path)]
    written = []

    def recorded(tail):
        """The file of the session, once all but a tail of what was sent is in it."""
        if list(tmp_path.glob("*/*.user.opus.part")):
            written[:] = spoken_packets(recording(tmp_path, "user", ".opus.part"))
        return len(written) >= len(packets) - tail

    async def test(server):
        with contextlib.suppress(websockets.ConnectionClosed):
            async with session(server, audio=audio("audio/opus")) as raw:
                # The second half is sent once the first is in the file, except for a second.
                await say(raw, packets[: len(packets) // 2])
                await asyncio.to_thread(wait_for, lambda: recorded(len(packets) // 2 + 50))
                await say(raw, packets[len(packets) // 2 :])
                await asyncio.to_thread(wait_for, lambda: recorded(50))
                server.process.send_signal(signal.SIGKILL)
                await raw.connection.wait_closed()

    with ParleyServer(*options) as server:
        server.expected_status = -signal.SIGKILL
        run(test(server))
        server.process.wait()
    assert recording(tmp_path, "user", ".opus.part")
    with ParleyServer(*options):
        user, agent = (recording(tmp_path, side) for side in ("user", "agent"))
    sides = decoded(user), decoded(agent)
    assert len(sides[0]) == len(sides[1])
    stored = spoken_packets(user)
    print(f"{20 * (len(packets) - len(stored))} ms of {20 * len(packets)} ms lost")
    assert len(stored) >= len(written) and stored == packets[: len(stored)]
    # A decoder omits the first milliseconds (the pre-skip of RFC 7845).
    assert len(sides[0]) // 48 >= 20 * (len(stored) - 1)
    assert not list(tmp_path.glob("*/*.part"))


def test_a_restart_loses_nothing(tmp_path, speech):
    packets = opus(speech)

    async def test(server):
        with contextlib.suppress(websockets.ConnectionClosed):
            async with session(server, audio=audio("audio/opus")) as raw:
                await say(raw, packets)
                server.process.terminate()
                await raw.connection.wait_closed()

    options = [*DEAF, "--recordings", "all", "--recordings-folder", str(tmp_path)]
    # Audio that is not committed is a turn in flight, which the restart waits for.
    with ParleyServer(*options, "--drain-timeout-ms", "0") as server:
        run(test(server))
        # A second signal would end it at once.
        assert server.process.wait() == 0
    assert spoken_packets(recording(tmp_path, "user")) == packets


class Bucket:
    """A server that takes PUTs and DELETEs whose signature is right (AWS version 4), while it is up.

    It works as AWS describes it for S3 ("Create a signed request"): the path is decoded and encoded
    anew, each byte but letters, digits, -._~ and slashes; the fields `host` and all `x-amz-…` must be
    signed, in the order of their names, with single spaces; the date may be 15 minutes off."""

    ACCESS, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "eu-central-1"

    def __init__(self, folder="/bucket/calls"):
        self.objects, self.deleted, self.refused, self.is_down = {}, [], [], False
        bucket = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.is_taken(body):
                    bucket.objects.setdefault(self.path, []).append(body)
                    self.answer(200)

            def do_DELETE(self):
                if self.is_taken(b""):
                    bucket.deleted.append(self.path)
                    is_there = bucket.objects.pop(self.path, None)
                    if is_there:
                        self.answer(204)
                    else:
                        self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

            def is_taken(self, body):
                objection = "down" if bucket.is_down else bucket.objection(self, body)
                if objection:
                    bucket.refused.append(objection)
                    self.answer(503, b"<Error><Code>SlowDown</Code></Error>")
                return not objection

            def answer(self, status, body=b""):
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Type", "application/xml")
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}{folder}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def options(self):
        return [
            "--recordings-url", self.url, "--recordings-url-region", self.REGION,
            "--recordings-url-key", f"{self.ACCESS}:{self.SECRET}",
        ]

    def objection(self, request, body):
        """Why a request is refused; None: it is right."""
        authorization = request.headers.get("Authorization", "")
        scheme, _, rest = authorization.partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            return f"not signed: {authorization}"
        fields = dict(part.strip().split("=", 1) for part in rest.split(","))
        date = request.headers["X-Amz-Date"]
        scope = f"{date[:8]}/{self.REGION}/s3/aws4_request"
        if fields["Credential"] != f"{self.ACCESS}/{scope}":
            return f"another scope: {fields['Credential']}"
        then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(
            tzinfo=datetime.timezone.utc)
        if abs(datetime.datetime.now(datetime.timezone.utc) - then) > datetime.timedelta(minutes=15):
            return f"another time: {date}"
        digest = hashlib.sha256(body).hexdigest()
        if request.headers["x-amz-content-sha256"] != digest:
            return "another body"
        names = fields["SignedHeaders"].split(";")
        amazon = {name.lower() for name in request.headers if name.lower().startswith("x-amz-")}
        if names != sorted(names) or not {"host", "x-amz-date"} | amazon <= set(names):
            return f"not all signed, or in disorder: {names}"
        headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
        path, _, query = request.path.partition("?")
        path = urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~")
        canonical = "\n".join([request.command, path, query, headers, ";".join(names), digest])
        text = "\n".join([
            "AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{self.SECRET}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        return None if expected == fields["Signature"] else "a wrong signature"


def test_complete_files_are_put_to_a_server_that_was_away(tmp_path, speech):
    options = [*DEAF, "--recordings", "all", "--recordings-folder", str(tmp_path)]

    async def speak(server):
        async with session(server, audio=audio("audio/opus")) as raw:
            await say(raw, opus(speech[: 48_000]))
            return raw.id

    async def test(server):
        return await asyncio.wait_for(speak(server), HANG_GUARD)

    with Bucket() as bucket:
        with ParleyServer(*options, *bucket.options()) as server:
            first = asyncio.run(test(server))
            wait_for(lambda: server.metric("parley_recording_uploads_total") == "2")
            assert bucket.refused == []
            bucket.is_down = True
            second = asyncio.run(test(server))
            wait_for(lambda: int(server.metric("parley_recording_failed_uploads_total")) >= 2)
            assert server.metric("parley_recording_pending_uploads") == "2"
            log = wait_for_log(server, "service failed")
            line, = [line for line in log.splitlines() if "service failed" in line]
            for fact in (
                "service=uploads", "status=503", f"url={bucket.url}/", "type=application/xml",
                "<Code>SlowDown</Code>", "see the log of the service",
            ):
                assert fact in line, line
            server.expected_status = -signal.SIGKILL
            server.process.kill()
            server.process.wait()
        assert len(list(tmp_path.glob("*/*.opus"))) == 2
        bucket.is_down = False
        with ParleyServer(*options, *bucket.options()) as server:
            wait_for(lambda: server.metric("parley_recording_uploads_total") == "2")
        assert not list(tmp_path.glob("*/*.opus"))
        assert set(bucket.refused) == {"down"}
        day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-")
        assert all(path.startswith(f"/bucket/calls/{day}") for path in bucket.objects)
        names = {path.rsplit("/", 1)[1] for path in bucket.objects}
        assert names == {
            f"{name}.{side}.opus" for name in (first, second) for side in ("user", "agent")}
        assert all(len(bodies) == 1 for bodies in bucket.objects.values())


def test_a_deletion_reaches_what_was_uploaded(tmp_path, speech):
    """One session is deleted over HTTP while the bucket is away, another where no server runs, and a third at
    the command line while one does."""
    folder, records = tmp_path / "recordings", str(tmp_path / "records.db")
    options = [
        *DEAF, "--recordings", "all", "--recordings-folder", str(folder), "--records", records]

    async def speak(server):
        async with session(server, audio=audio("audio/opus")) as raw:
            await say(raw, opus(speech[: 9_600]))
            return raw.id

    def metric(server, name):
        return int(server.metric(f"parley_recording_{name}"))

    def delete(identifier):
        """The command line, with the server's settings in a file."""
        config = tmp_path / "parley.json"
        config.write_text(json.dumps({
            "records": records, "recordings-folder": str(folder), "recordings-url": bucket.url}))
        return subprocess.run(
            [BINARY, "sessions", "delete", identifier, "--yes", "--config", str(config)],
            text=True, capture_output=True, timeout=HANG_GUARD)

    def ended(server, identifier):
        return any(row["id"] == identifier for row in ask(server, "/admin/records")[1]["data"])

    def names():
        return {path.rsplit("/", 1)[1].split(".")[0] for path in bucket.objects}

    with Bucket() as bucket:
        with ParleyServer(*options, *bucket.options()) as server:
            first, second, third, other = [
                asyncio.run(asyncio.wait_for(speak(server), HANG_GUARD)) for _ in range(4)]
            wait_for(lambda: metric(server, "uploads_total") == 8)
            assert names() == {first, second, third, other}
            wait_for(lambda: all(ended(server, each) for each in (first, second, third, other)))
            bucket.is_down = True
            assert ask(server, f"/admin/records/{first}", "DELETE") == (204, None)
            wait_for(lambda: metric(server, "failed_erasures_total") >= 2)
            assert metric(server, "pending_erasures") == 2
            log = wait_for_log(server, "a recording was not deleted")
            (line,) = [line for line in log.splitlines() if "service failed" in line]
            assert "service=uploads" in line and "status=503" in line and first in line, line
            server.expected_status = -signal.SIGKILL
            server.process.kill()
            server.process.wait()
        done = delete(second)
        assert done.returncode == 0, done
        assert done.stderr.splitlines() == [
            "parley: 1 deleted", "parley: 2 uploaded files: the server deletes them at recordings-url, "
            "within seconds or after its next start"]
        assert names() == {first, second, third, other} and len(list(folder.glob("erase/*"))) == 4
        # One is gone already, which the bucket says with 404.
        gone, *_ = [path for path in bucket.objects if second in path]
        del bucket.objects[gone]
        bucket.is_down = False
        with ParleyServer(*options, *bucket.options()) as server:
            wait_for(lambda: metric(server, "erasures_total") == 4)
            assert metric(server, "pending_erasures") == 0 and names() == {third, other}
            assert gone.rsplit("/", 1)[1] in wait_for_log(server, "is not at the server of uploads")
            assert delete(third).returncode == 0
            wait_for(lambda: metric(server, "erasures_total") == 6)
            assert metric(server, "failed_erasures_total") == 0
        assert names() == {other} and set(bucket.refused) == {"down"}
        assert len(bucket.deleted) == 6 and not list(folder.glob("erase/*"))


@pytest.mark.skipif(not RedisServer.INSTALLED, reason="redis-server is not installed")
def test_a_withdrawn_consent_reaches_what_was_uploaded_before_a_restart(tmp_path, speech):
    packets = opus(speech[: 9_600])

    async def speak(caller):
        for packet in packets:
            await caller.connection.send(packet)
        # A restart waits for audio that no turn has taken.
        await caller.send("input_audio_buffer.clear")
        await caller.until("input_audio_buffer.cleared")

    async def first_part(server):
        caller = Caller(server)
        await caller.open()
        await caller.configure(recording=AGREED, audio=audio("audio/opus"))
        await speak(caller)
        server.process.terminate()
        with pytest.raises(websockets.ConnectionClosed):
            while True:
                await caller.next()
        return caller

    async def second_part(caller, server):
        caller.server = server
        assert (await caller.come_back())["type"] == "parley.resumed"
        await speak(caller)
        await asyncio.to_thread(wait_for, lambda: list(tmp_path.glob("*/*.part")))
        await caller.configure(recording={"consent": False})
        await caller.close()

    with Bucket() as bucket, RedisServer() as redis:
        options = [
            *DEAF, "--recordings", "asked", "--recordings-folder", str(tmp_path), *bucket.options(),
            "--store", redis.url, "--drain-delay-ms", "0", "--drain-jitter-ms", "0"]
        with ParleyServer(*options) as server:
            caller = asyncio.run(asyncio.wait_for(first_part(server), HANG_GUARD))
            # A second signal would end it at once.
            assert server.process.wait() == 0
        with ParleyServer(*options) as server:
            wait_for(lambda: len(bucket.objects) == 2)
            run(second_part(caller, server))
            wait_for(lambda: server.metric("parley_recording_erasures_total") == "2")
            assert server.metric("parley_recordings") == "0"
        assert not bucket.objects and not bucket.refused and len(bucket.deleted) == 2
        assert not [*tmp_path.glob("*/*.opus*"), *tmp_path.glob("erase/*")]


def test_names_are_signed_as_s3_encodes_them(tmp_path, speech):
    async def speak(server):
        async with session(server, audio=audio("audio/opus")) as raw:
            await say(raw, opus(speech[: 9_600]))

    with Bucket("/bucket/our calls/year=2026/a@b+(c)%7e") as bucket:
        with ParleyServer(
            *DEAF, "--recordings", "all", "--recordings-folder", str(tmp_path), *bucket.options()
        ) as server:
            run(speak(server))
            wait_for(lambda: server.metric("parley_recording_uploads_total") == "2")
            (path, _) = bucket.objects
            name = path.rsplit("/", 1)[1].removesuffix(".opus")
            (tmp_path / "erase").mkdir()
            (tmp_path / "erase" / f"{path.split('/')[-2]}.{name}").touch()
            wait_for(lambda: server.metric("parley_recording_erasures_total") == "1")
            assert bucket.deleted == [path]
        assert bucket.refused == []
        start = "/bucket/our%20calls/year%3D2026/a%40b%2B%28c%29~/"
        assert all(path.startswith(start) for path in bucket.objects), list(bucket.objects)


def test_a_large_file_is_put_as_a_whole(tmp_path):
    """Above a megabyte libcurl asks first (`Expect: 100-continue`), with a field that is not signed."""
    packets = [bytes([0xF8]) + os.urandom(1_200) for _ in range(900)]

    async def speak(server):
        async with session(server, audio=audio("audio/opus")) as raw:
            for index, packet in enumerate(packets):
                await raw.connection.send(packet)
                # The session keeps 30 s that no turn has taken.
                if index % 400 == 399:
                    await raw.send("input_audio_buffer.clear")
                    await raw.until("input_audio_buffer.cleared")

    with Bucket() as bucket:
        with ParleyServer(
            *DEAF, "--recordings", "all", "--recordings-folder", str(tmp_path), *bucket.options()
        ) as server:
            run(speak(server))
            wait_for(lambda: server.metric("parley_recording_uploads_total") == "2")
        assert bucket.refused == []
        (user,) = [bodies[0] for path, bodies in bucket.objects.items() if ".user." in path]
        stored = tmp_path / "user.opus"
        stored.write_bytes(user)
        assert spoken_packets(stored) == packets


@contextlib.contextmanager
def standing_still(server):
    """Stops the server's process, so that it does not see what is between two steps."""
    server.process.send_signal(signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{server.process.pid}/task")
    # A thread may be in a system call, which ends first.
    wait_for(lambda: all(
        "\nState:\tT" in (thread / "status").read_text() for thread in threads.iterdir()))
    yield
    server.process.send_signal(signal.SIGCONT)


def test_a_file_that_cannot_be_read_is_not_given_up(tmp_path, speech):
    """The pauses between attempts, of a second and twice as long each time, are the server's own."""
    async def speak(server):
        async with session(server, audio=audio("audio/opus")) as raw:
            await say(raw, opus(speech[: 9_600]))

    def failures(server):
        return int(server.metric("parley_recording_failed_uploads_total"))

    with Bucket() as bucket:
        bucket.is_down = True
        with ParleyServer(
            *DEAF, "--recordings", "all", "--recordings-folder", str(tmp_path), *bucket.options()
        ) as server:
            run(speak(server))
            wait_for(lambda: failures(server) >= 1)
            (day,) = tmp_path.iterdir()
            aside = tmp_path / "aside"
            # A file in the place of the folder: this is no `ENOENT`.
            with standing_still(server):
                day.rename(aside)
                day.write_text("")
            before = failures(server)
            asked = len(bucket.refused)
            wait_for(lambda: failures(server) > before)
            assert len(bucket.refused) <= asked + 1
            with standing_still(server):
                day.unlink()
                aside.rename(day)
            bucket.is_down = False
            wait_for(lambda: server.metric("parley_recording_uploads_total") == "2")
        assert len(bucket.objects) == 2
        assert not list(tmp_path.glob("*/*.opus"))


def test_a_full_disk_is_felt_by_no_call(tmp_path, speech):
    """The folder's limit is reached: the call goes on, and what is missing is counted."""

    async def test(server):
        async with session(
            server, output_modalities=["audio"], audio=audio("audio/opus", type="server_vad")
        ) as raw:
            for packet in opus(speech):
                await raw.connection.send(packet)
            await raw.until("response.done")

    # The reply is sent at once, and not at the pace of its playing.
    options = ["--playout-lead-ms", "60000", "--recordings-max-bytes", "2000"]
    with ParleyServer(
        "--recordings", "all", "--recordings-folder", str(tmp_path), *options
    ) as server:
        run(test(server))
        wait_for(lambda: server.metric("parley_recordings_finished_total") == "1")
        assert int(server.metric("parley_recording_dropped_bytes_total")) > 1_000
        assert int(server.metric("parley_recording_folder_bytes")) <= 2_000
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 2_000


@pytest.mark.parametrize(("arguments", "words"), [
    (["--recordings", "all"], "recordings needs recordings-folder"),
    (["--recordings-folder", "/proc/x"], "cannot write to /proc/x"),
    (["--recordings-folder", "/tmp", "--recordings-url", "http://a", "--recordings-url-key", "x"],
     "ACCESS:SECRET"),
    (["--recordings-folder", "/tmp", "--recordings-url", "http://a/b?c=d"], "no query"),
])
def test_settings_that_cannot_be_met_end_the_start(arguments, words):
    done = subprocess.run(
        [BINARY, "serve", "--port", "0", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and words in done.stderr
