"""Human speech through the whole server, as Opus at 24 kb/s, and recognition of its spoken
replies."""

import concurrent.futures
import itertools

import pytest
from parley_server import ParleyServer
from recordings import convert, utterances, word_errors, words
from talkers import heard_in

pytestmark = pytest.mark.busy

FORMATS = list(itertools.product(["json", "binary"], ["pcm", "pcmu", "pcma", "opus"]))


@pytest.fixture(scope="module")
def quick():
    """A server that sends replies at once, and not at the pace of their playing."""
    options = {"PARLEY_WARM_MODELS": "true"}
    with ParleyServer("--playout-lead-ms", "60000", **options) as server:
        yield server


@pytest.fixture(scope="module")
def running(quick, tmp_path_factory):
    """All conversations of this file, started side by side; a test waits for those it needs. They take as
    long as the longest recordings, which `parley talk` sends as a microphone would."""
    folder = tmp_path_factory.mktemp("speech")

    def say(path, text):
        recording = convert(path, folder / f"{path.stem}.wav")
        reply = folder / f"{path.stem}-reply.wav"
        turn = quick.turns("--wav", str(recording), "--out", str(reply))[0]
        # A client sends the reply, spoken by the embedded voice, as speech again.
        return {"text": text, "reply_again": heard_in(reply, quick), **turn}

    def say_as(transport, name):
        recording = convert(utterances()[0][0], folder / f"{transport}-{name}.wav", rate=44100)
        reply = folder / f"{transport}-{name}-reply.wav"
        turn = quick.turns(
            "--wav", str(recording), "--out", str(reply), "--format", name,
            "--transport", transport,
        )[0]
        return {"reply_bytes": reply.stat().st_size, **turn}

    def converse():
        recordings = [
            str(convert(path, folder / f"conversation-{index}.wav"))
            for index, (path, _) in enumerate(utterances()[:3:2])
        ]
        return quick.turns("--wav", recordings[0], "--wav", recordings[1])

    with concurrent.futures.ThreadPoolExecutor(1 + len(utterances()) + len(FORMATS)) as pool:
        yield {
            "conversation": pool.submit(converse),
            "turns": [pool.submit(say, path, text) for path, text in utterances()],
            "formats": {each: pool.submit(say_as, *each) for each in FORMATS},
        }


@pytest.fixture(scope="module")
def turns(running):
    """Every recording, sent once: its text, the transcript, and the reply."""
    return [turn.result() for turn in running["turns"]]


def test_word_error_rate_of_human_speech_is_at_most_8_percent(turns):
    total = sum(len(words(turn["text"])) for turn in turns)
    errors = 0
    for turn in turns:
        wrong = word_errors(words(turn["text"]), words(turn["heard"]))
        errors += wrong
        print(f"{wrong} errors: {turn['heard']!r} for {turn['text']!r}")
    print(f"{errors} errors in {total} words: {100 * errors / total:.1f}%")
    assert total == 75
    assert errors / total <= 0.08


def test_every_hop_of_every_turn_was_measured(turns):
    for turn in turns:
        hops = turn["transcript_ms"], turn["first_text_ms"], turn["first_audio_ms"]
        print(hops)
        assert all(hop is not None and hop >= 0 for hop in hops)
        assert hops[0] <= hops[2]


def test_spoken_replies_heard_again_match_their_text(turns):
    errors = total = 0
    for turn in turns:
        wrong = word_errors(words(turn["reply"]), words(turn["reply_again"]))
        errors += wrong
        total += len(words(turn["reply"]))
        print(f"{wrong} errors: {turn['reply_again']!r} for {turn['reply']!r}")
    assert total > 0
    assert errors / total <= 0.10


@pytest.mark.parametrize(("transport", "format_name"), FORMATS)
def test_every_format_and_transport(running, transport, format_name):
    turn = running["formats"][transport, format_name].result()
    assert word_errors(words(utterances()[0][1]), words(turn["heard"])) <= 1, turn
    assert turn["reply"]
    assert turn["reply_bytes"] > 8000


def test_a_conversation_of_two_recordings(running):
    turns = running["conversation"].result()
    assert len(turns) == 2
    assert "meters" in words(turns[0]["heard"])
    assert "young" in words(turns[1]["heard"])
