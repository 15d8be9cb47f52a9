"""voicebench, a bench of voice agents from PyPI, holds a conversation and hears what a user would: each
turn is answered, and speech over a reply stops it. How soon is not judged: a machine may be slow."""

import asyncio

import pytest
from parley_server import ParleyServer
from recordings import DATA, convert, utterances
from voicebench.bench import run_benchmark
from voicebench.scenario import parse_scenario

MINUTE = 60_000


@pytest.mark.parametrize("rate", [8000, 16000])
def test_a_conversation_with_an_interruption(rate, tmp_path):
    short = convert(DATA / "goforward.raw", tmp_path / "short.wav")
    # Its repetition lasts long enough to be interrupted.
    path, _ = max(utterances(), key=lambda utterance: len(utterance[1]))
    long = convert(path, tmp_path / "long.wav")
    turns = [
        {"id": "opening", "audio": {"file": str(short)}, "text": "go forward ten meters"},
        {"id": "long", "audio": {"file": str(long)}},
        {"id": "interruption", "audio": {"file": str(short)}, "expect": "stop",
         "start": {"after": "agent_speech_start", "delay_ms": 900, "timeout_ms": MINUTE}},
    ]
    for turn in turns:
        turn |= {"response_timeout_ms": MINUTE, "max_stop_ms": MINUTE}
        turn.setdefault("start", {"timeout_ms": MINUTE})
    scenario = parse_scenario({
        "name": "a conversation", "sample_rate": rate, "turns": turns, "max_duration_ms": 3 * MINUTE,
        "assert": {"max_missed_responses": 0, "min_barge_in_success_rate": 1}})
    with ParleyServer() as server:
        result = asyncio.run(run_benchmark(
            scenario, "voicebench_adapter:RealtimeAdapter", {"url": server.realtime_url}))
    assert result.passed, result.report
    (record,) = result.records
    assert not record.truncated and len(record.clears) >= len(turns)
    heard = [transcript.text.lower() for transcript in record.transcripts]
    # The bench ends with the stop that the interruption causes, which may be before its words are known.
    assert "forward" in heard[0] and len(heard) >= len(turns) - 1
