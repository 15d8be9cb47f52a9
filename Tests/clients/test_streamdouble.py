"""streamdouble, a simulator of Twilio's Media Streams from PyPI: calls that end their audio with the
speech, that interrupt, that press keys, that hang up, and that lose packets."""

import json
import subprocess
import sys

import pytest
from parley_server import HANG_GUARD, ParleyServer
from recordings import DATA, convert, utterances
from streamdouble import cli

GREETER = """
- name: greeter
  greeting: Good morning, and welcome. This line answers questions about the weather, the time and the way.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streamdouble")
    convert(DATA / "goforward.raw", folder / "whole.wav", 8000)
    # Nothing but the speech: no silence before it, and none behind.
    trim = ["silence", "1", "0.1", "1%", "reverse"]
    subprocess.run(
        ["sox", folder / "whole.wav", folder / "short.wav", *trim, *trim], check=True)
    path, _ = max(utterances(), key=lambda utterance: len(utterance[1]))
    convert(path, folder / "long.wav", 8000)
    (folder / "agents.yaml").write_text(GREETER)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    # The simulator sends nothing more after the speech, which ends it.
    with ParleyServer(
        "--telephone", "twilio", "--agents", str(folder / "agents.yaml"), PARLEY_AUDIO_GAP_MS="1000",
    ) as server:
        # The recogniser is loaded with the first call.
        server.talk("--wav", str(folder / "whole.wav"))
        yield server


def url(server, agent=""):
    return f"ws://127.0.0.1:{server.port}/twilio{agent}"


def place(folder, *arguments):
    """Places a call, and returns its report."""
    done = subprocess.run(
        [sys.executable, "-m", cli.__name__, *arguments, "--json"], cwd=folder,
        text=True, capture_output=True, timeout=HANG_GUARD, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    report = json.loads(done.stdout)
    assert report["violations"] == [] and report["unknown_events"] == []
    # Marks of what was cleared, or not played when the caller hung up, are not returned.
    assert report["marks_received"] >= report["marks_echoed"] > 0
    return report


def scenario(server, folder, *steps, agent=""):
    """Plays the steps of a caller; each `expect` among them holds."""
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({"name": "a caller", "steps": steps}))
    report = place(folder, "scenario", str(path), url(server, agent))
    assert all(expectation["passed"] for expectation in report["expectations"]), report
    return report


def test_a_line_that_stops_sending_with_the_speech_is_answered(server, folder):
    report = place(
        folder, "call", url(server), "--audio", "short.wav", "--out", "reply.wav")
    assert not report["timed_out"] and not report["closed_early"]
    # The demo agent repeats the words.
    assert report["audio_received_ms"] > 1_000


def test_a_caller_who_goes_on_sending_silence_is_answered(server, folder):
    scenario(
        server, folder, {"say": "short.wav"}, {"wait_for": "audio"}, {"wait_for": "mark"},
        {"expect": "audio"}, {"expect": "no_violations"}, {"wait_for": "quiet"})


def test_a_caller_who_interrupts_clears_the_line(server, folder):
    report = scenario(
        server, folder, {"say": "long.wav"}, {"wait_for": "audio"}, {"wait": 0.5},
        {"say": "short.wav"}, {"wait_for": "clear"}, {"expect": "clear"})
    assert report["clears_received"] >= 1


def test_an_agent_speaks_first(server, folder):
    scenario(
        server, folder, {"wait_for": "audio"}, {"expect": "audio"}, {"wait_for": "mark"},
        {"expect": "no_violations"}, agent="?agent=greeter")


def test_keys_and_an_abrupt_end(server, folder):
    scenario(
        server, folder, {"wait_for": "audio"}, {"dtmf": "12#"}, {"wait_for": "mark"}, "hangup",
        agent="?agent=greeter")
    # The next call is as good as any.
    place(folder, "call", url(server), "--audio", "short.wav")
