"""Human speech through the whole server, as Opus at 24 kb/s, and its spoken replies heard again."""

import concurrent.futures

import pytest
from recordings import convert, utterances, word_errors, words

# One recogniser thread per core, and sending is paced: three at a time keep nobody waiting.
AT_ONCE = 3


@pytest.fixture(scope="module")
def turns(parley, tmp_path_factory):
    """Every recording, said once: its text, what was heard, and the reply."""
    folder = tmp_path_factory.mktemp("speech")

    def say(utterance):
        path, text = utterance
        recording = convert(path, folder / f"{path.stem}.wav")
        reply = folder / f"{path.stem}-reply.wav"
        turn = parley.turns("--wav", str(recording), "--out", str(reply))[0]
        return {"text": text, "reply_path": reply, **turn}

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(say, utterances()))


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


def test_spoken_replies_heard_again_match_their_text(parley, turns):
    def hear(turn):
        return parley.turns("--wav", str(turn["reply_path"]))[0]["heard"]

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        heard = list(pool.map(hear, turns))
    errors = total = 0
    for turn, again in zip(turns, heard, strict=True):
        wrong = word_errors(words(turn["reply"]), words(again))
        errors += wrong
        total += len(words(turn["reply"]))
        print(f"{wrong} errors: {again!r} for {turn['reply']!r}")
    assert total > 0
    assert errors / total <= 0.10


@pytest.mark.parametrize("format_name", ["pcm", "pcmu", "pcma", "opus"])
@pytest.mark.parametrize("transport", ["json", "binary"])
def test_every_format_and_transport(parley, tmp_path, format_name, transport):
    path, text = utterances()[0]
    recording = convert(path, tmp_path / "in.wav", rate=44100)
    reply = tmp_path / "reply.wav"
    turn = parley.turns(
        "--wav", str(recording), "--out", str(reply), "--format", format_name,
        "--transport", transport,
    )[0]
    assert word_errors(words(text), words(turn["heard"])) <= 1, turn
    assert turn["reply"]
    assert reply.stat().st_size > 8000


def test_a_conversation_of_two_recordings(parley, tmp_path):
    first, second = (
        str(convert(path, tmp_path / f"{index}.wav"))
        for index, (path, _) in enumerate(utterances()[:3:2])
    )
    turns = parley.turns("--wav", first, "--wav", second)
    assert len(turns) == 2
    assert "meters" in words(turns[0]["heard"])
    assert "young" in words(turns[1]["heard"])
