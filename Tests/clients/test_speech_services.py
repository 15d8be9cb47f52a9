"""Transcription, speech and audio models provided by HTTP services, valid and faulty."""

import asyncio
import base64
import concurrent.futures
import io
import statistics
import time
import wave

import pytest
from event_schema import server_event
from faulty_service import FaultyService, silence
from openai import OpenAI
from parley_server import ParleyServer
from realtime_session import append, connect, run
from recordings import DATA, convert, word_errors, words
from speech_service import SPOKEN, SpeechService, ogg_packets
from talkers import heard_in

TRANSCRIPTIONS, SPEECH = "/v1/audio/transcriptions", "/v1/audio/speech"
FAILED = "conversation.item.input_audio_transcription.failed"
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with SpeechService(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(autouse=True)
def good_manners(service):
    service.behaviours.clear()
    service.requests.clear()


@pytest.fixture(scope="module")
def remote(service):
    """A server that uses the service for recognition, model and speech. Replies are sent as fast as
    they come, and the service speaks all of them; other tests check pacing and caching."""
    with ParleyServer(
        "--stt-url", service.url, "--stt-model", "whisper-9", "--stt-stream", "true",
        "--tts-url", service.url, "--tts-format", "opus", "--llm", service.url,
        "--service-retry-percent", "100",
        "--playout-lead-ms", "60000", "--phrase-cache-bytes", "0",
        PARLEY_STT_KEY="stt-key", PARLEY_TTS_KEY="tts-key",
    ) as server:
        yield server


@pytest.fixture(scope="module")
def impatient():
    """A server with a short time limit for its recogniser, which never answers, and the recogniser. It
    uses no other service, so everything else that must be on time is the server's own work."""
    with FaultyService(silence) as recogniser, ParleyServer(
        "--stt-url", recogniser.url, "--service-timeout-ms", "200", "--service-retry-percent", "100",
        "--playout-lead-ms", "60000",
    ) as server:
        yield server, recogniser


@pytest.fixture(scope="module")
def remote_pcm(service):
    """A server that requests samples from the speech service. Replies are sent as fast as they come."""
    with ParleyServer(
        "--tts-url", service.url, "--llm", service.url, "--phrase-cache-bytes", "0",
        "--playout-lead-ms", "60000",
    ) as server:
        yield server


async def heard(session, speech):
    """Sends speech, and returns the event with its transcript or error."""
    transcription = {"model": "any", "language": "en", "prompt": "meters"}
    await session.update(audio={"input": {"transcription": transcription}})
    await append(session, speech)
    return await session.until(COMPLETED, FAILED)


async def reply(session, text, **response):
    await session.say(f"Say: {text}")
    return await session.respond(**response)


def test_the_service_is_one_to_the_official_client(service):
    client = OpenAI(base_url=service.url, api_key="none")
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(16000)
        audio.writeframes((DATA / "goforward.raw").read_bytes())
    file.seek(0)
    file.name = "a.wav"
    assert client.audio.transcriptions.create(model="m", file=file).text == SPOKEN
    file.seek(0)
    events = list(client.audio.transcriptions.create(model="m", file=file, stream=True))
    assert [event.type for event in events][-1] == "transcript.text.done"
    spoken = client.audio.speech.create(
        model="m", voice="alloy", input="Hi", response_format="opus"
    )
    assert spoken.content.startswith(b"OggS")


def test_a_turn_is_heard_by_the_service(remote, service, speech):
    async def test():
        async with connect(remote) as session:
            done = await heard(session, speech)
            assert done.transcript == SPOKEN
            deltas = [event.delta for event in session.of(DELTA)]
            assert deltas == ["go", " forward", " ten", " meters"]
            await session.until("response.done")

    run(test())
    asked = service.asked(TRANSCRIPTIONS)[0]
    assert asked["headers"]["Authorization"] == "Bearer stt-key"
    assert asked["model"] == "whisper-9"
    assert (asked["language"], asked["prompt"]) == ("en", "meters")
    assert asked["rate"] == 16000 and 1.5 < asked["seconds"] < 4


def test_opus_of_the_service_reaches_the_client_untouched(remote, service):
    packets = []

    async def test():
        async with connect(remote) as session:
            opus = {"type": "audio/opus"}
            await session.connection.send({
                "type": "session.update",
                "session": {"type": "realtime", "audio": {"output": {"format": opus}}},
            })
            await session.connection.send({
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "user",
                         "content": [{"type": "input_text", "text": "Say: One clause."}]},
            })
            await session.connection.send({"type": "response.create"})
            while True:
                event = server_event(await session.connection.recv_bytes())
                assert event["type"] != "error", event
                if event["type"] == "response.output_audio.delta":
                    packets.append(base64.b64decode(event["delta"]))
                if event["type"] == "response.done":
                    return

    run(test())
    asked = service.asked(SPEECH)[0]
    assert asked["headers"]["Authorization"] == "Bearer tts-key"
    assert asked["input"] == "One clause." and asked["response_format"] == "opus"
    sent = ogg_packets(service.ogg)
    # The encoder's delay and padding may take a packet at either end.
    assert len(sent) - 2 <= len(packets) <= len(sent)
    assert all(packet in sent for packet in packets)


@pytest.mark.parametrize("behaviour", ["good", "long frames"])
def test_what_the_service_says_is_understood(remote, parley, service, tmp_path, behaviour):
    """Takes as long as the recording, which `parley talk` sends as a microphone would."""
    recording = convert(DATA / "goforward.raw", tmp_path / "in.wav")
    # Transcriptions have no frames, so their requests get valid answers.
    service.behaviours[:] = [behaviour] * 4

    def say(format_name):
        reply = tmp_path / f"{format_name}.wav"
        turn = remote.turns(
            "--wav", str(recording), "--out", str(reply), "--format", format_name
        )[0]
        return turn, heard_in(reply, parley)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for turn, again in pool.map(say, ["pcm", "opus"]):
            assert turn["heard"] == SPOKEN and turn["reply"] == "I heard nothing at all."
            assert word_errors(words(SPOKEN), words(again)) <= 1
    assert len(service.asked(SPEECH)) == 2 and not service.behaviours


@pytest.mark.parametrize("behaviours", [["500"], ["reset"], ["429 0"], ["503", "reset"], ["slow"]])
def test_a_failure_that_passes_is_not_noticed(remote, service, speech, behaviours):
    service.behaviours[:] = behaviours

    async def test():
        async with connect(remote) as session:
            assert (await heard(session, speech)).type == COMPLETED
            await session.until("response.done")

    run(test())
    # A slow answer is not a failure.
    expected = 1 if behaviours == ["slow"] else len(behaviours) + 1
    assert len(service.asked(TRANSCRIPTIONS)) == expected


@pytest.mark.parametrize(
    ("behaviours", "attempts"),
    [(["500"] * 3, 3), (["429 60"], 1), (["401"], 1), (["junk"], 1), (["die"], 1)],
)
def test_a_failed_transcription_is_told_and_the_session_lives(
    remote, service, speech, behaviours, attempts
):
    service.behaviours[:] = behaviours

    async def test():
        async with connect(remote) as session:
            failed = await heard(session, speech)
            assert failed.type == FAILED and failed.error.code and failed.error.message
            assert service.url not in failed.to_json() and "sk-" not in failed.to_json()
            assert len(service.asked(TRANSCRIPTIONS)) == attempts
            assert (await session.until("response.done")).response.status == "failed"
            service.behaviours.clear()
            events = await reply(session, "It works again.")
            assert [e.response.status for e in events if e.type == "response.done"] == ["completed"]

    run(test())
    log = remote.log_path.read_text()
    if behaviours[0].isdigit():
        assert "sk-secret" in log


def test_a_recogniser_that_never_answers_is_told_and_the_session_lives(impatient, speech):
    server, recogniser = impatient

    async def test():
        async with connect(server) as session:
            failed = await heard(session, speech)
            assert failed.type == FAILED and failed.error.code and failed.error.message
            # Connections, because a request may not be read before the server has given it up.
            while recogniser.connections < 3:
                await asyncio.sleep(0.01)
            done = (await session.until("response.done")).response
            assert done.status == "failed"
            assert recogniser.connections == 3
            events = await reply(session, "It works again.")
            assert [e.response.status for e in events if e.type == "response.done"] == ["completed"]

    run(test())


@pytest.mark.parametrize("behaviours", [["500"] * 3, ["die"], ["damaged"], ["junk"], ["400"]])
def test_a_failed_clause_fails_its_response_and_the_session_lives(remote, service, behaviours):
    async def test():
        async with connect(remote) as session:
            service.behaviours[:] = behaviours
            events = await reply(session, "This will not be heard to its end.")
            done = [event.response for event in events if event.type == "response.done"]
            assert [response.status for response in done] == ["failed"]
            assert done[0].status_details.error.code.startswith("upstream_")
            text = "".join(event.to_json() for event in events)
            assert service.url not in text and "sk-secret" not in text
            service.behaviours.clear()
            events = await reply(session, "It works again.")
            done = [event.response for event in events if event.type == "response.done"]
            assert [response.status for response in done] == ["completed"]

    run(test())


@pytest.mark.parametrize("behaviour", ["junk", "html", "mp3", "empty", "die"])
def test_what_is_no_speech_is_not_played(remote_pcm, service, behaviour):
    async def test():
        async with connect(remote_pcm) as session:
            service.behaviours[:] = [behaviour]
            events = await reply(session, "This is not heard.")
            done = [event.response for event in events if event.type == "response.done"]
            assert [response.status for response in done] == ["failed"]
            assert done[0].status_details.error.code.startswith("upstream_")
            played = [event for event in events if event.type == "response.output_audio.delta"]
            assert behaviour == "die" or not played
            events = await reply(session, "It works again.")
            done = [event.response for event in events if event.type == "response.done"]
            assert [response.status for response in done] == ["completed"]

    run(test())


def test_a_wav_file_is_played_without_its_header(remote_pcm, service):
    sound = []

    async def test():
        async with connect(remote_pcm) as session:
            for behaviour in ["good", "wav"]:
                service.behaviours[:] = [behaviour]
                events = await reply(session, "A file.")
                deltas = [e.delta for e in events if e.type == "response.output_audio.delta"]
                sound.append(b"".join(base64.b64decode(delta) for delta in deltas))

    run(test())
    assert sound[0] == sound[1] and len(sound[0]) > 24000


def test_a_service_that_never_stops_speaking_is_held_up(service):
    """While replies are sent at the pace of their playing."""
    def held(server):
        lines = server.get("/metrics")[2].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines
                   if line.startswith("parley_ledger_total_bytes"))

    async def test(server):
        async with connect(server) as session:
            service.behaviours[:] = ["flood"]
            await session.say("Say: On and on.")
            await session.connection.response.create()
            # A second of it. The service sends many megabytes in that time if it may.
            for _ in range(10):
                await session.until("response.output_audio.delta")
                assert held(server) < 1_000_000
            await session.connection.response.cancel()
            done = await session.until("response.done")
            assert done.response.status == "cancelled"
            events = await reply(session, "It works.")
            done = [event.response for event in events if event.type == "response.done"]
            assert [response.status for response in done] == ["completed"]

    with ParleyServer("--tts-url", service.url, "--llm", service.url) as server:
        run(test(server))


def test_a_model_that_hears_is_given_the_turn(service, speech):
    arguments = ("--llm", service.url, "--llm-audio", "true", "--playout-lead-ms", "60000")

    async def test(server):
        async with connect(server) as session:
            await append(session, speech)
            done = (await session.until("response.done")).response
            said = done.output[0].content[0].transcript
            assert said.startswith("I heard ") and said.endswith(" seconds of you.")
            assert 1.5 < float(said.split()[2]) < 4
            assert not session.of(COMPLETED)

    with ParleyServer(*arguments) as server:
        run(test(server))
    assert service.asked(TRANSCRIPTIONS) == []


def test_the_first_sound_follows_the_first_clause_at_once(service, figure):
    """With the embedded voice: the model waits until the client has the first audio. The delay is
    printed; model-slow.yaml checks the exact time on the virtual clock."""
    waits = []

    async def test(server):
        async with connect(server) as session:
            for turn in range(21):
                service.second_half.clear()
                await session.say(f"Halfway: Here is the answer number {turn}. And some more.")
                await session.connection.response.create()
                await session.until("response.output_audio.delta")
                waits.append(1000 * (time.monotonic() - service.spoken_at))
                service.second_half.set()
                await session.connection.response.cancel()
                await session.until("rate_limits.updated")

    with ParleyServer("--llm", service.url) as server:
        run(test(server))
    first, rest = waits[0], sorted(waits[1:])
    median, p95 = statistics.median(rest), rest[int(0.95 * len(rest))]
    figure(f"first audio after the first clause: {median:.0f} ms median, {p95:.0f} ms p95, "
           f"{first:.0f} ms the first time")
