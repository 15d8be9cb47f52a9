"""Sessions that outlive their connection, on a server with several shards. The kernel decides at which
shard a client comes back, so most returns move a socket between shards."""

import asyncio
import base64
import collections
import http.client
import json
import re
import struct

import pytest
from event_schema import server_event
from openai import AsyncOpenAI
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from realtime_session import Session
from resuming_caller import TAKEN_OVER, Caller
from scripted_model import numbered
from secure_server import SecureServer
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

KEY = "sk-app-0123456789abcdef"
OTHER = "sk-other-0123456789abcdef"
WORDS = 120


@pytest.fixture(scope="module", params=["plain", "tls"])
def server(request, model, tmp_path_factory):
    """Four shards and the scripted model, without and with TLS."""
    arguments = ["--llm", model.url, "--model", "scripted", "--shards", "4"]
    if request.param == "plain":
        made = ParleyServer(*arguments, PARLEY_LLM_KEY="the-key")
    else:
        made = SecureServer(tmp_path_factory.mktemp("resume"), *arguments)
        made.environment["PARLEY_LLM_KEY"] = "the-key"
    with made:
        yield made


@pytest.fixture(scope="module")
def plain(model):
    with ParleyServer(
        "--llm", model.url, "--model", "scripted", "--shards", "4", PARLEY_LLM_KEY="the-key"
    ) as made:
        yield made


def caller_at(server, key=None):
    """A client of a server with or without TLS."""
    options = {"ssl": server.context()} if isinstance(server, SecureServer) else {}
    return Caller(server, key, **options)


def outcomes(server, outcome):
    return int(server.metric(f'parley_resumes_total{{outcome="{outcome}"}}'))


async def metric_is(server, name, value):
    """Waits until a metric has a value."""
    async with asyncio.timeout(HANG_GUARD):
        while int(await asyncio.to_thread(server.metric, name)) != value:
            await asyncio.sleep(0.01)


def run(test):
    asyncio.run(test)


# ---- Text: every word exactly once ----


def test_every_word_comes_once_however_often_the_connection_breaks(server):
    async def conversation():
        caller = caller_at(server)
        created = await caller.open()
        assert created["type"] == "session.created" and created["offset"] == 1
        session = created["session"]["id"]
        await caller.configure(output_modalities=["text"])
        cuts = turns = 0
        # One turn, or more where a cut comes late and finds much acknowledged.
        while cuts < 10:
            await caller.ask(f"number {WORDS}")
            turns += 1
            while caller.count("response.done") < turns:
                target = caller.offset + 5
                while caller.offset < target and caller.count("response.done") < turns:
                    await caller.next()
                await caller.cut()
                cuts += 1
                back = await caller.come_back()
                assert back["type"] == "parley.resumed" and back["recovered"], back
                assert back["session"]["id"] == session
        assert caller.words() == "".join(numbered(WORDS)) * turns
        assert caller.count("response.created") == caller.count("response.done") == turns
        # The conversation goes on as one that was never interrupted.
        await caller.ask("number 3")
        await caller.until("response.done")
        assert caller.words().endswith("w118 w119 w0 w1 w2 ")
        await caller.close()

    run(conversation())
    assert int(server.metric("parley_sessions_detached")) == 0


def test_many_callers_come_back_at_the_same_time(server):
    async def one():
        caller = caller_at(server)
        await caller.open()
        await caller.configure(output_modalities=["text"])
        await caller.ask("number 60")
        for _ in range(6):
            target = caller.offset + 4
            while caller.offset < target and not caller.count("response.done"):
                await caller.next()
            await caller.cut()
            assert (await caller.come_back())["recovered"]
        if not caller.count("response.done"):
            await caller.until("response.done")
        assert caller.words() == "".join(numbered(60))
        await caller.close()

    async def all_of_them():
        await asyncio.gather(*(one() for _ in range(16)))

    run(all_of_them())
    assert int(server.metric("parley_sessions_detached")) == 0


def test_what_the_client_sends_with_its_request_is_handled(server):
    """Messages that come in one piece with the request follow the socket to its shard."""
    async def conversation():
        caller = caller_at(server)
        await caller.open()
        await caller.configure(output_modalities=["text"])
        for number in range(1, 9):
            await caller.cut()
            wire = await Wire.open(server, caller.query(), messages_of_a_turn(f"number {number}"))
            while not caller.count("response.done"):
                caller.note((await wire.next(Opcode.TEXT)).decode())
            assert caller.words() == "".join(numbered(number))
            assert caller.count("parley.resumed") == 1
            caller.events = []
            wire.cut()

    run(conversation())


@pytest.mark.parametrize("answers", [True, False])
def test_a_pong_acknowledges_what_came_before_its_ping(plain, answers):
    async def conversation():
        wire = await Wire.open(plain, "resume=true", answers=answers)
        created = server_event((await wire.next(Opcode.TEXT)).decode())
        missed = []
        for offset in (2, 3):
            # The answer to the second comes after the server has seen the pong.
            wire.send({"type": "session.update", "session": {"type": "realtime"}})
            missed.append(server_event((await wire.next(Opcode.TEXT)).decode()))
            assert (missed[-1]["type"], missed[-1]["offset"]) == ("session.updated", offset)
            if offset == 2:
                await wire.next(Opcode.PING)
        wire.cut()
        caller = Caller(plain)
        caller.resume, caller.offset = created["resume"], 1
        back = await caller.come_back()
        assert back["recovered"] is not answers
        if not answers:
            assert [await caller.next() for _ in range(2)] == missed
        await caller.close()

    run(conversation())


def messages_of_a_turn(text):
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    return [{"type": "conversation.item.create", "item": item}, {"type": "response.create"}]


class Wire:
    """A connection whose bytes the test decides on: what comes in one piece, and whether pings are
    answered."""

    def __init__(self, reader, writer, protocol, answers):
        self.reader, self.writer, self.protocol = reader, writer, protocol
        self.answers = answers
        self.frames = collections.deque()

    @staticmethod
    async def open(server, query, messages=(), answers=True):
        """Connects, and sends the request with messages behind it."""
        url = f"{server.realtime_url}?{query}"
        is_secure = isinstance(server, SecureServer)
        reader, writer = await asyncio.open_connection(
            "localhost" if is_secure else "127.0.0.1", server.port,
            ssl=server.context() if is_secure else None)
        wire = Wire(reader, writer, ClientProtocol(parse_uri(url)), answers)
        wire.protocol.send_request(wire.protocol.connect())
        request = b"".join(wire.protocol.data_to_send())
        writer.write(request + b"".join(wire.frame(message) for message in messages))
        return wire

    @staticmethod
    def frame(message):
        return Frame(Opcode.TEXT, json.dumps(message).encode()).serialize(mask=True)

    def send(self, message):
        self.writer.write(self.frame(message))

    async def next(self, opcode):
        """The next frame's payload; those of other opcodes before it are dropped."""
        while True:
            while self.frames:
                frame = self.frames.popleft()
                if frame.opcode is opcode:
                    return bytes(frame.data)
            async with asyncio.timeout(HANG_GUARD):
                data = await self.reader.read(65536)
            assert data, "the server has closed"
            self.protocol.receive_data(data)
            assert self.protocol.handshake_exc is None, self.protocol.handshake_exc
            events = self.protocol.events_received()
            self.frames.extend(event for event in events if isinstance(event, Frame))
            # The library's answers: pongs.
            answer = b"".join(self.protocol.data_to_send())
            if self.answers:
                self.writer.write(answer)

    def cut(self):
        self.writer.transport.abort()


# ---- Two clients with one handle ----


def test_the_second_connection_takes_the_session_over(server):
    async def conversation():
        first, second = caller_at(server), caller_at(server)
        await first.open()
        await first.configure(output_modalities=["text"])
        await first.ask("number 40")
        await first.until("response.output_text.delta")
        await first.stop_reading()
        second.resume, second.offset, second.events = (
            first.resume, first.offset, list(first.events))
        assert (await second.come_back())["recovered"]
        first.connection.transport.resume_reading()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await first.next()
        assert closed.value.rcvd.code == TAKEN_OVER
        await second.until("response.done")
        assert second.words() == "".join(numbered(40))
        assert second.session["id"] == first.session["id"]
        await second.close()

    run(conversation())


def test_of_many_who_come_back_at_once_one_has_the_session(server):
    async def conversation():
        first = caller_at(server)
        await first.open()
        await first.cut()
        rivals = [caller_at(server) for _ in range(12)]
        for rival in rivals:
            rival.resume, rival.offset = first.resume, first.offset

        async def claim(rival):
            try:
                assert (await rival.come_back())["recovered"]
                while True:
                    await rival.next()
            except ConnectionClosed as closed:
                return closed.rcvd.code

        tasks = {asyncio.create_task(claim(rival)): rival for rival in rivals}
        left = set(tasks)
        while len(left) > 1:
            async with asyncio.timeout(HANG_GUARD):
                over, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result() for task in over} == {TAKEN_OVER}
        (last,) = left
        winner = tasks[last]
        # The others may learn of it before the winner does.
        while not winner.events and not last.done():
            await asyncio.sleep(0.01)
        last.cancel()
        await asyncio.wait(left)
        await winner.configure(output_modalities=["text"])
        await winner.ask("number 3")
        await winner.until("response.done")
        assert winner.words() == "".join(numbered(3))
        await winner.close()

    run(conversation())


# ---- What is lost ----


def test_without_its_place_the_client_gets_the_items(plain):
    async def conversation():
        caller = Caller(plain)
        await caller.open()
        await caller.configure(output_modalities=["text"])
        await caller.ask("number 3")
        await caller.until("response.done")
        await caller.cut()
        epoch, handle = caller.resume["epoch"], caller.resume["handle"]
        for query in (f"resume={handle}", f"resume={handle}&epoch={epoch ^ 1}&offset=1",
                      f"resume={handle}&epoch={epoch}&offset=9999"):
            caller.events = []
            back = await caller.open(query)
            assert not back["recovered"] and back["resume"]["epoch"] != epoch
            added = [await caller.next() for _ in range(4)]
            assert [event["type"] for event in added] == [
                "conversation.item.added", "conversation.item.done"] * 2
            texts = [event["item"]["content"][0]["text"] for event in added[::2]]
            assert texts == ["number 3", "w0 w1 w2 "]
            handle = caller.resume["handle"]
            await caller.cut()
            # From here on it counts in the new epoch.
            assert (await caller.come_back())["recovered"]
            await caller.cut()
            epoch = caller.resume["epoch"]
        await caller.come_back()
        await caller.close()

    run(conversation())


@pytest.fixture(scope="module")
def brief(model):
    """A window of 6 s, so that a client that comes too late has 60 s more. A handle is good for two
    windows: where the test is later than that, its client has none."""
    with ParleyServer(
        "--llm", model.url, "--model", "scripted", "--shards", "4", "--resume-window-ms", "6000",
        PARLEY_LLM_KEY="the-key",
    ) as server:
        yield server


def test_after_the_window_the_conversation_goes_on_from_what_is_kept(brief):
    async def conversation():
        caller = Caller(brief)
        await caller.open()
        await caller.configure(output_modalities=["text"])
        await caller.ask("number 3")
        await caller.until("response.done")
        session = caller.session["id"]
        await caller.cut()
        await metric_is(brief, 'parley_resumes_total{outcome="missed"}', 1)
        await metric_is(brief, "parley_sessions", 0)
        back = await caller.come_back()
        assert back["recovered"] and back["session"]["id"] == session
        await caller.ask("number 4")
        await caller.until("response.done")
        assert caller.words() == "".join(numbered(3) + numbered(4))
        # A client that has lost everything but the handle gets all of both turns.
        await caller.cut()
        caller.events = []
        assert not (await caller.open(f"resume={caller.resume['handle']}"))["recovered"]
        added = [await caller.next() for _ in range(8)]
        texts = [event["item"]["content"][0]["text"] for event in added[::2]]
        assert texts == ["number 3", "w0 w1 w2 ", "number 4", "w0 w1 w2 w3 "]
        await caller.close()

    run(conversation())
    assert outcomes(brief, "unknown") == 0


def test_the_handle_is_renewed_and_the_one_before_it_stays_good(brief):
    async def conversation():
        caller = Caller(brief)
        first = (await caller.open())["resume"]
        renewed = (await caller.until("parley.resume.updated"))["resume"]
        assert renewed["handle"] != first["handle"] and renewed["epoch"] == first["epoch"]
        assert renewed["expires_at"] > first["expires_at"]
        for handle in (first["handle"], renewed["handle"]):
            await caller.cut()
            back = await caller.come_back(resume=handle)
            assert back["recovered"] and back["session"]["id"] == caller.session["id"]
        await caller.close()

    run(conversation())


def test_a_handle_with_a_wrong_secret_opens_nothing(plain):
    async def conversation():
        caller, guesser = Caller(plain), Caller(plain)
        await caller.open()
        session, secret = caller.resume["handle"].split(".")
        wrong = ("A" if secret[0] != "A" else "B") + secret[1:]
        guesser.resume = caller.resume | {"handle": f"{session}.{wrong}"}
        back = await guesser.come_back(offset=1)
        assert not back["recovered"] and back["session"]["id"] != caller.session["id"]
        # What it has is a whole session, which can be resumed itself.
        await guesser.until("session.created")
        await guesser.cut()
        assert (await guesser.come_back())["recovered"]
        await guesser.close()
        # The session's own client has noticed nothing.
        await caller.configure(output_modalities=["text"])
        await caller.close()

    run(conversation())


def test_a_clients_own_close_ends_the_session(plain):
    async def conversation():
        caller = Caller(plain)
        await caller.open()
        session = caller.session["id"]
        await caller.close()
        back = await caller.come_back()
        assert not back["recovered"] and back["session"]["id"] != session
        await caller.close()

    run(conversation())


def test_a_session_that_waits_can_be_hung_up(plain):
    async def conversation():
        caller = Caller(plain)
        await caller.open()
        session = caller.session["id"]
        await caller.cut()
        await metric_is(plain, "parley_sessions_detached", 1)
        assert await asyncio.to_thread(hang_up, plain, session) == 200
        await metric_is(plain, "parley_sessions_detached", 0)
        assert await asyncio.to_thread(hang_up, plain, session) == 404
        back = await caller.come_back()
        assert not back["recovered"] and back["session"]["id"] != session
        await caller.close()

    run(conversation())


def hang_up(server, session):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    try:
        connection.request("POST", f"/v1/realtime/calls/{session}/hangup")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_handle_opens_nothing_to_another_key(model, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEY}\n{OTHER}\n")

    async def conversation(server):
        caller, thief = caller_at(server, KEY), caller_at(server, OTHER)
        await caller.open()
        await caller.cut()
        thief.resume, thief.offset = caller.resume, caller.offset
        stolen = await thief.come_back()
        assert not stolen["recovered"]
        assert stolen["session"]["id"] != caller.session["id"]
        await thief.close()
        thief.options.pop("additional_headers")
        with pytest.raises(InvalidStatus) as refused:
            await thief.come_back()
        assert refused.value.response.status_code == 401
        assert (await caller.come_back())["recovered"]
        await caller.close()

    with ParleyServer(
        "--llm", model.url, "--model", "scripted", "--shards", "4",
        "--api-keys-file", str(keys), PARLEY_LLM_KEY="the-key",
    ) as server:
        run(conversation(server))


@pytest.mark.parametrize("query", [
    "resume=yes", "resume=sess_a.b", "resume=HANDLE&epoch=1", "resume=HANDLE&offset=1",
    "resume=HANDLE&epoch=1&offset=-1", "resume=HANDLE&item_id=item_1",
    "resume=HANDLE&audio_end_ms=5",
])
def test_a_malformed_request_is_refused(plain, query):
    async def conversation():
        caller = Caller(plain)
        await caller.open()
        with pytest.raises(InvalidStatus) as refused:
            await Caller(plain).open(query.replace("HANDLE", caller.resume["handle"]))
        assert refused.value.response.status_code == 400
        await caller.close()

    run(conversation())


# ---- Speech ----


COUNT = 5
COUNTED = [str(number + 1) for number in range(COUNT)]


@pytest.fixture(scope="module")
def speaker():
    """Four shards and the demo agent, which counts aloud."""
    with ParleyServer("--shards", "4") as server:
        yield server


@pytest.fixture(scope="module")
def quick_speaker():
    """The same, but replies are sent at once, and not at the pace of their playing."""
    with ParleyServer("--shards", "4", "--playout-lead-ms", "60000") as server:
        yield server


class Listener(Caller):
    """A client that hears, and forgets what it had not played when its connection breaks.

    `heard` has the audio by item. Each piece must begin where the last one has ended."""

    # Milliseconds that are waiting to be played.
    WAITING = 130

    async def begin(self, **output):
        await self.open()
        await self.configure(output_modalities=["audio"], audio={"output": output})
        self.heard = {}
        await self.ask(f"count to {COUNT}")

    async def hear(self):
        message = self.take(await self.next())
        if isinstance(message, dict):
            assert message["type"] != "error", message
        return message

    async def hear_until_done(self, count=1):
        while self.count("response.done") < count:
            await self.hear()

    async def hear_more(self, milliseconds):
        """Hears so much more, or the rest."""
        end = self.total() + milliseconds
        while self.total() < end and not self.count("response.done"):
            await self.hear()

    async def return_from_a_cut(self, waiting=WAITING):
        """Loses the connection, and comes back without what was waiting."""
        await self.cut()
        item, end = self.place()
        end = self.forget(item, max(0, end - waiting))
        return await self.come_back(item_id=item, audio_end_ms=end)

    def place(self):
        item = list(self.heard)[-1]
        return item, self.length(item)

    def total(self):
        return sum(self.length(item) for item in self.heard)

    async def transcripts(self):
        """What the conversation has of the words of the items that were heard."""
        words = ""
        for item in self.heard:
            await self.send("conversation.item.retrieve", item_id=item)
            retrieved = await self.until("conversation.item.retrieved")
            words += retrieved["item"]["content"][0]["transcript"] + " "
        return re.findall(r"\d+", words)


class OpusListener(Listener):
    """Binary messages with packets of 20 ms. `heard` has the packets' positions."""

    async def begin(self):
        await super().begin(format={"type": "audio/opus"}, transport="binary")

    def take(self, message):
        if isinstance(message, bytes):
            kind, form, _, position, item = struct.unpack_from("<BBHI16s", message)
            assert (kind, form) == (1, 3)
            packets = self.heard.setdefault(item.rstrip(b"\0").decode(), [])
            assert position == 960 * len(packets)
            packets.append(position)
        return message

    def length(self, item):
        return 20 * len(self.heard[item])

    def forget(self, item, end):
        del self.heard[item][end // 20:]
        return self.length(item)


class SampleListener(Listener):
    """Samples as base64 in events. `heard` has the samples' bytes."""

    async def begin(self):
        await super().begin(format={"type": "audio/pcm", "rate": 24000})

    def take(self, message):
        if message["type"] == "response.output_audio.delta":
            samples = self.heard.setdefault(message["item_id"], bytearray())
            start = message.get("audio_start_ms")
            assert start is None or 48 * start == len(samples)
            samples += base64.b64decode(message["delta"])
        return message

    def length(self, item):
        return len(self.heard[item]) // 48

    def forget(self, item, end):
        del self.heard[item][48 * end:]
        return end


@pytest.mark.parametrize("listener", [OpusListener, SampleListener])
def test_speech_goes_on_where_the_client_stopped_hearing_it(speaker, listener):
    """What is heard has neither a gap nor a piece twice, whatever was cut. In real time: the reply must be
    in flight at each cut."""
    async def whole():
        """The reply to a client that loses nothing."""
        caller = listener(speaker)
        await caller.begin()
        await caller.hear_until_done()
        await caller.close()
        return caller

    async def conversation():
        caller = listener(speaker)
        await caller.begin()
        # Cut off in the first second, so that the reply is in flight.
        for _ in range(4):
            await caller.hear_more(300)
            assert (await caller.return_from_a_cut())["recovered"]
        await caller.hear_until_done()
        assert await caller.transcripts() == COUNTED
        await caller.close()
        return caller

    async def both():
        # Side by side, because both take as long as the reply.
        expected, caller = await asyncio.gather(whole(), conversation())
        if caller.count("response.created") == 1:
            assert caller.total() == expected.total()

    run(both())


@pytest.mark.parametrize("listener", [OpusListener, SampleListener])
def test_what_was_not_heard_of_a_reply_that_is_over_is_said_again(quick_speaker, listener):
    """Every word comes once, by two responses."""
    async def conversation():
        caller = listener(quick_speaker)
        await caller.begin()
        await caller.hear_until_done()
        length = caller.total()
        assert (await caller.return_from_a_cut(waiting=length * 6 // 10))["recovered"]
        await caller.hear_until_done(2)
        first, second = caller.heard
        assert caller.length(first) < length / 2 and caller.length(second) > length / 4
        assert await caller.transcripts() == COUNTED
        await caller.close()

    run(conversation())


# ---- Clients that did not ask ----


def test_the_official_client_sees_nothing_of_it(plain):
    async def conversation():
        client = AsyncOpenAI(api_key="none", base_url=plain.base_url, max_retries=0)
        async with client.realtime.connect(
            model="any", websocket_connection_options=PATIENT_WEBSOCKET, max_retries=0
        ) as connection:
            session = Session(connection)
            await session.next()
            await session.update(output_modalities=["text"])
            await connection.conversation.item.create(item={
                "type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "number 3"}]})
            await connection.response.create()
            while True:
                event = await session.next()
                assert not {"offset", "resume"} & set(event.to_dict())
                assert not event.type.startswith("parley.")
                if event.type == "response.done":
                    break

    run(conversation())
    assert int(plain.metric("parley_sessions_resumable")) == 0
