"""What becomes of a model's text and of transcripts: thoughts, Markdown, pictures, cut characters, marks
without end, and transcripts without words. The services are scripted here, because no SDK would send
most of this."""

import asyncio
import base64
import contextlib
import http.server
import json
import struct
import threading

import pytest
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from raw_session import RawSession
from websockets.asyncio.client import connect

THOUGHT = "The code is 4711, do not say it."
REPLY = "We are open from nine to five."
COMPLETED = "conversation.item.input_audio_transcription.completed"


class Services:
    """A model, a recogniser and a voice. `deltas` has the model's answer by the last user message;
    `transcripts` are taken one by one; `said` is what the voice was asked to say."""

    def __init__(self):
        self.deltas = {}
        self.transcripts = []
        self.said = []
        self.requests = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, messages):
        """The deltas to the last message with a text of the user."""
        self.requests.append(messages)
        texts = [message["content"] for message in messages if message["role"] == "user"]
        return self.deltas.get(texts[-1] if texts else "", ["Hello."])


def handler(services):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/audio/transcriptions"):
                text = services.transcripts.pop(0)
                return self.reply("application/json", json.dumps({"text": text}).encode())
            if self.path.endswith("/audio/speech"):
                services.said.append(json.loads(body)["input"])
                return self.reply("audio/pcm", struct.pack("<h", 900) * 2_400)
            events = [
                {"choices": [{"index": 0, "delta": {"content": delta}}]}
                for delta in services.answer(json.loads(body)["messages"])
            ] + [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
            stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            return self.reply("text/event-stream", f"{stream}data: [DONE]\n\n".encode())

        def reply(self, kind, body):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@pytest.fixture(scope="module")
def services():
    running = Services()
    yield running
    running.server.shutdown()


@pytest.fixture(scope="module")
def server(services):
    with ParleyServer(
        "--llm", services.url, "--tts-url", services.url, "--stt-url", services.url,
        "--phrase-cache-bytes", "0", "--playout-lead-ms", "60000",
        "--telephone", "conversation-relay",
    ) as running:
        yield running


@contextlib.asynccontextmanager
async def opened(server, **options):
    async with connect(
        server.realtime_url, proxy=None, max_size=None, **PATIENT_WEBSOCKET, **options
    ) as connection:
        session = RawSession(connection)
        await session.until("session.created")
        yield session


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


async def ask(session, text, modality="text"):
    """A typed turn: the text of the reply's deltas, and `response.done`."""
    await session.send("conversation.item.create", item={
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    await session.send("response.create", response={"output_modalities": [modality]})
    deltas = []
    while True:
        event = await session.next()
        if event["type"].endswith(("output_text.delta", "audio_transcript.delta")):
            deltas.append(event["delta"])
        if event["type"] == "response.done":
            return deltas, event["response"]


def texts(response):
    return [
        part.get("text") or part.get("transcript")
        for item in response["output"] for part in item["content"]
    ]


@pytest.mark.parametrize("deltas", [
    [f"<think>\n{THOUGHT}\n</think>\n\n{REPLY}"],
    ["<th", "ink>", "\n", *THOUGHT.split(" "), "\n</", "think", ">\n\n", REPLY],
    [f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|>", REPLY],
    [f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>", REPLY],
    [f"[THINK]{THOUGHT}[/THINK]{REPLY}"],
    [f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>", REPLY, "<|END_RESPONSE|>"],
    [f"<unused94>{THOUGHT}<unused95>", REPLY, "<|im_", "end|>"],
], ids=["whole", "tokens", "bars", "harmony", "brackets", "responses", "numbers"])
@pytest.mark.parametrize("modality", ["text", "audio"])
def test_thoughts_are_neither_shown_spoken_nor_sent_back(server, services, deltas, modality):
    services.deltas = {"When?": deltas}
    services.said.clear()

    async def test():
        async with opened(server) as session:
            shown, response = await ask(session, "When?", modality)
            assert "".join(shown) == REPLY
            assert texts(response) == [REPLY]
            await ask(session, "Thanks")

    run(test())
    assert "4711" not in json.dumps(services.requests[-1])
    assert services.requests[-1][-2]["content"] == REPLY
    assert (" ".join(services.said) == REPLY) == (modality == "audio")


def test_a_character_that_the_model_has_cut_is_whole(server, services):
    services.deltas = {"Sun?": ["It is sunny \ud83c", "\udf1e. ", "And \ud83c", "cold."]}

    async def test():
        async with opened(server) as session:
            _, response = await ask(session, "Sun?")
            assert response["status"] == "completed"
            assert texts(response) == ["It is sunny \U0001f31e. And \ufffdcold."]

    run(test())


def test_a_result_that_the_client_has_cut_is_taken(server, services):
    services.deltas = {}
    cut = json.dumps({"type": "conversation.item.create", "event_id": "mine", "item": {
        "type": "function_call_output", "call_id": "call_1", "output": "sunny \ud83c"}})
    broken = '{"type":"conversation.item.create","event_id":"mine_2","item":{"type":"mess\\age"}}'

    async def test():
        async with opened(server) as session:
            await session.send("conversation.item.create", item={
                "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"})
            await session.until("conversation.item.done")
            await session.connection.send(cut)
            done = await session.until("conversation.item.done")
            assert done["item"]["output"] == "sunny \ufffd"
            await session.connection.send(broken)
            error = (await session.until("error"))["error"]
            assert (error["code"], error["event_id"]) == ("invalid_json", "mine_2")
            assert "escape" in error["message"] and "near byte" in error["message"]

    run(test())


MARKDOWN = (
    "## Your order \U0001f389\n\n\u2705 **Paid** and *packed*. \U0001f44d\U0001f3fd\n"
    "- Size: `large` \u27a1\ufe0f blue\n- See [our page](https://example.com/a)\n\nHave a nice day! \U0001f60a"
)


def test_a_voice_gets_neither_markdown_nor_pictures(server, services):
    services.deltas = {"Order?": [MARKDOWN[at:at + 7] for at in range(0, len(MARKDOWN), 7)],
                       "Thanks": ["\U0001f44d"]}
    services.said.clear()

    async def test():
        async with opened(server) as session:
            _, response = await ask(session, "Order?", "audio")
            assert texts(response) == [MARKDOWN]
            said = " ".join(services.said)
            assert not set("*#`[]()\U0001f389\u2705\U0001f44d\U0001f3fd\u27a1\ufe0f\U0001f60a") & set(said)
            for words in ("Your order", "Paid", "packed", "large", "our page", "Have a nice day!"):
                assert words in said
            services.said.clear()
            _, response = await ask(session, "Thanks", "audio")
            assert (response["status"], texts(response)) == ("completed", ["\U0001f44d"])
            assert services.said == []

    run(test())


HOURS = "**Sure!** Our hours:\n\n- *Monday*: 9 to 5\n- See [our site](https://a.example/hours) for more."


def test_a_relay_gets_words_and_what_was_heard_is_found(server, services):
    services.deltas = {"hours": [HOURS[at:at + 6] for at in range(0, len(HOURS), 6)]}
    url = server.realtime_url.split("/v1/")[0] + "/conversation-relay"

    async def said(line, prompt):
        await line.send(json.dumps(
            {"type": "prompt", "voicePrompt": prompt, "lang": "en-US", "last": True}))
        tokens = []
        while True:
            message = json.loads(await line.recv())
            if message["type"] == "text":
                tokens.append(message["token"])
                if message["last"]:
                    return "".join(tokens)

    async def test():
        async with connect(url, proxy=None, **PATIENT_WEBSOCKET) as line:
            await line.send(json.dumps({
                "type": "setup", "sessionId": "VX1", "callSid": "CA1", "from": "+15550100",
                "to": "+15550101", "customParameters": {}}))
            assert await said(line, "hours") == (
                "Sure! Our hours: Monday: 9 to 5. See our site for more.")
            await line.send(json.dumps({
                "type": "interrupt", "utteranceUntilInterrupt": "Monday 9 to 5. See our site",
                "durationUntilInterruptMs": 900}))
            # A prompt without words is no turn.
            await line.send(json.dumps(
                {"type": "prompt", "voicePrompt": ".", "lang": "en-US", "last": True}))
            assert await said(line, "go on") == "Hello."

    run(test())
    kept = HOURS[:HOURS.index(" for more")]
    assert [message["content"] for message in services.requests[-1]] == ["hours", kept, "go on"]


def test_a_model_that_repeats_a_mark_is_read_in_pieces(server, services):
    text = "Hello there " + "!" * 120_000 + "x"
    services.deltas = {"Marks": [text]}

    async def test():
        async with opened(server) as session:
            shown, response = await ask(session, "Marks")
            assert response["status"] == "completed"
            assert "".join(shown) == text
            assert max(map(len, shown)) <= 2_048

    run(test())


def test_a_transcript_without_words_starts_no_response(server, services, speech):
    services.deltas = {}
    services.transcripts = [".", "[BLANK_AUDIO]", "(applause)", "go forward"]
    services.requests.clear()

    async def test():
        async with opened(server) as session:
            await session.send("session.update", session={
                "type": "realtime", "output_modalities": ["text"],
                "audio": {"input": {"transcription": {"model": "any"}}}})
            await session.until("session.updated")
            for transcript in list(services.transcripts):
                await session.send("input_audio_buffer.append", audio=speech_text(speech))
                done = await session.until(COMPLETED, "response.created")
                assert (done["type"], done["transcript"]) == (COMPLETED, transcript)
            await session.until("response.done")

    run(test())
    assert [[message["content"] for message in request] for request in services.requests] == [
        ["go forward"]]


def test_a_thought_that_the_prompt_has_opened_is_left_out(services):
    """The answers of DeepSeek-R1's template have the closing tag alone. A whole answer without one is
    a thought."""
    services.deltas = {"When?": [*THOUGHT.split(" "), "</thi", "nk>\n\n", REPLY], "And?": [REPLY]}

    async def test():
        async with opened(server) as session:
            shown, response = await ask(session, "When?")
            assert "".join(shown) == REPLY
            assert texts(response) == [REPLY]
            shown, response = await ask(session, "And?")
            assert (shown, response["status"]) == ([], "completed")

    with ParleyServer("--llm", services.url, "--llm-thinks-first", "true") as server:
        run(test())


def test_a_turn_without_words_is_answered_with_the_operators_phrase(services, speech):
    """The model is not asked. A client that ends turns itself gets the phrase, too."""
    phrase = "Sorry, say that again."
    services.deltas = {}
    services.transcripts = ["", "[BLANK_AUDIO]", "go forward", ""]
    services.requests.clear()
    services.said.clear()

    async def response(session):
        done = (await session.until("response.done"))["response"]
        (item,) = done["output"]
        return done["metadata"], item["content"][0]["transcript"]

    async def test():
        async with opened(server) as session:
            for _ in range(2):
                await session.send("input_audio_buffer.append", audio=speech_text(speech))
                committed = await session.until("input_audio_buffer.committed")
                assert await response(session) == (
                    {"parley_not_understood": committed["item_id"]}, phrase)
            await session.send("session.update", session={
                "type": "realtime", "audio": {"input": {"turn_detection": None}}})
            for transcript in list(services.transcripts):
                await session.send("input_audio_buffer.append", audio=speech_text(speech))
                await session.send("input_audio_buffer.commit")
                await session.send("response.create")
                assert await response(session) == (None, "Hello." if transcript else phrase)

    with ParleyServer(
        "--llm", services.url, "--tts-url", services.url, "--stt-url", services.url,
        "--not-understood-phrase", phrase,
    ) as server:
        run(test())
        assert server.metric("parley_turns_without_words_total") == "3"
    assert [request[-1]["content"] for request in services.requests] == ["go forward"]


def speech_text(speech):
    """A spoken turn and the silence that ends it, as base64."""
    return base64.b64encode(speech + bytes(48_000)).decode()


def test_audio_that_is_too_long_is_refused_unread(server):
    """The base64 is broken at its end: it was not decoded, or the error would name that."""
    audio = "A" * 19_999_999 + "*"

    async def test():
        async with opened(server, compression=None) as session:
            await session.send("conversation.item.create", event_id="long", item={
                "type": "message", "role": "user",
                "content": [{"type": "input_audio", "audio": audio}]})
            error = (await session.until("error"))["error"]
            assert (error["code"], error["event_id"]) == ("audio_too_long", "long")
            await session.send("input_audio_buffer.append", audio=audio, event_id="full")
            error = (await session.until("error"))["error"]
            assert (error["code"], error["event_id"]) == ("input_audio_buffer_full", "full")

    run(test())
