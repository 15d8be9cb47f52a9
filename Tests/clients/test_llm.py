"""Turns sent to a chat-completions server: the request, the streamed answer, and failures."""

import json
import subprocess

import pytest
from parley_server import BINARY, HANG_GUARD, ParleyServer, free_port
from realtime_session import append, check_deltas, connect, run, spoken
from recordings import word_errors, words
from scripted_model import ESCAPES, HALVES


def test_a_typed_turn_is_piped_and_streamed(piped, model):
    done = piped.talk("--text", "hello", "--instructions", "Be brief.", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert deltas == ["You ", "said: ", "hello"]
    asked = model.requests[-1]
    assert asked["path"] == "/v1/chat/completions"
    assert asked["headers"]["Authorization"] == "Bearer the-key"
    assert asked["body"]["model"] == "scripted"
    assert asked["body"]["stream"] is True
    assert asked["body"]["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"},
    ]


def test_the_conversation_so_far_is_sent(piped, model):
    done = piped.talk(typed="one\ntwo\n")
    assert done.returncode == 0, done.stderr
    assert "agent: You said: one" in done.stdout
    assert "agent: You said: two" in done.stdout
    roles = [message["role"] for message in model.requests[-1]["body"]["messages"]]
    assert roles[-3:] == ["user", "assistant", "user"]


def test_a_spoken_question_gets_a_spoken_answer_while_the_model_still_writes(
    piped, model, speech
):
    # Takes real time: the reply is sent half a second ahead of its playing.
    async def test():
        model.second_half.clear()
        model.finished.clear()
        async with connect(piped) as session:
            await session.update(instructions="Stop halfway.")
            await append(session, speech)
            await session.until("response.created")
            start = len(session.events) - 1
            await session.until("response.output_audio_transcript.delta")
            await session.until("response.output_audio.delta")
            assert not model.finished.is_set()
            model.second_half.set()
            await session.until("rate_limits.updated")
            events = session.events[start:]
            text, audio = spoken(events)
            assert text.strip() == "".join(HALVES)
            assert len(audio) > 2 * 24000 and any(audio)
            done = session.of("response.done")[-1].response
            assert done.status == "completed"
            assert done.output[0].content[0].transcript == text
            asked = model.requests[-1]["body"]["messages"][-1]
            assert asked["role"] == "user"
            assert word_errors(words("go forward ten meters"), words(asked["content"])) <= 1

    try:
        run(test())
    finally:
        model.second_half.set()


@pytest.mark.parametrize("text", ["please die", "please refuse"])
def test_a_model_that_fails_fails_its_response_and_the_session_lives_on(piped, text):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"])
            await session.say(text)
            await session.connection.response.create()
            done = (await session.until("response.done")).response
            assert done.status == "failed"
            assert done.status_details.error.code
            if "refuse" in text:
                assert "500" in done.to_json()
            await session.until("rate_limits.updated")
            await session.say("again")
            events = await session.respond()
            assert "".join(check_deltas(events, "response.output_text")) == "You said: again"

    run(test())


def test_a_failed_reply_is_told_and_ends_with_status_1(piped):
    done = piped.talk("--text", "please refuse")
    assert done.returncode == 1
    # The service's own text goes to the log only: it may contain addresses and keys.
    assert "500" in done.stderr and "out of order" not in done.stderr


def controls(text):
    """Characters in a text that a terminal would obey, or that hide or reorder text."""
    kept = {"\n", "\t"}
    unseen = {*map(chr, [*range(0x20), *range(0x7F, 0xA0)]), "\u2028", "\u2029"}
    turning = set(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
    return set(text) & ((unseen | turning) - kept)


def test_what_a_model_says_is_shown_by_the_terminal_and_not_obeyed(piped):
    done = piped.talk("--text", "escapes")
    assert done.returncode == 0, done.stderr
    assert not controls(done.stdout) and not controls(done.stderr)
    shown = r"Look: \u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\u{202e}"
    assert f"agent: {shown}\n       parley: forged" in done.stdout


def test_json_of_talk_shows_controls_and_keeps_their_meaning(piped):
    done = piped.talk("--text", "escapes", "--json")
    assert done.returncode == 0, done.stderr
    assert not controls(done.stdout)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "".join(ESCAPES)


def test_talk_outlives_the_reader_of_its_output(piped):
    with subprocess.Popen(
        [BINARY, "talk", "--url", piped.realtime_url, "--text", "hello"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as talk:
        talk.stdout.close()
        assert talk.wait(HANG_GUARD) == 0 and talk.stderr.read() == ""


def test_a_model_server_that_is_not_there_fails_the_reply():
    with ParleyServer("--llm", f"http://127.0.0.1:{free_port()}/v1") as server:
        done = server.talk("--text", "hello")
        assert done.returncode == 1
        assert done.stderr.startswith("parley: the response ended as failed")
        assert server.get("/healthz")[0] == 200
