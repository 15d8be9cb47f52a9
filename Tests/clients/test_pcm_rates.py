"""Linear samples at each rate: human speech in, its words back, and a spoken reply of the same length."""

import base64
import json

import pytest
from event_schema import server_event
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from recordings import DATA, convert, words
from websockets.sync.client import connect

WORDS = "go forward ten meters"


@pytest.fixture(scope="module")
def server():
    # Spoken replies are sent at once.
    with ParleyServer("--playout-lead-ms", "60000") as server:
        yield server


def until(connection, *kinds):
    while True:
        event = server_event(connection.recv(timeout=HANG_GUARD))
        if event["type"] in kinds:
            return event
        assert event["type"] != "error", event


@pytest.mark.parametrize("rate", [8000, 16000, 24000, 48000])
def test_a_turn_at_each_rate(server, rate, tmp_path):
    recording = convert(DATA / "goforward.raw", tmp_path / "speech.raw", rate).read_bytes()
    audio = {"type": "audio/pcm", "rate": rate}
    with connect(server.realtime_url, **PATIENT_WEBSOCKET) as connection:
        connection.send(json.dumps({"type": "session.update", "session": {
            "type": "realtime", "audio": {
                "input": {"format": audio, "turn_detection": None, "transcription": {"model": "m"}},
                "output": {"format": audio}}}}))
        session = until(connection, "session.updated")["session"]["audio"]
        assert session["input"]["format"] == session["output"]["format"] == audio
        connection.send(json.dumps({
            "type": "input_audio_buffer.append", "audio": base64.b64encode(recording).decode()}))
        connection.send(json.dumps({"type": "input_audio_buffer.commit"}))
        heard = until(connection, "conversation.item.input_audio_transcription.completed")
        assert words(heard["transcript"]) == WORDS.split()
        connection.send(json.dumps({"type": "response.create"}))
        samples = 0
        while (event := until(
                connection, "response.output_audio.delta", "response.done"))["type"] != "response.done":
            samples += len(base64.b64decode(event["delta"])) // 2
        # The demo agent repeats the words: two to four seconds, whatever the rate.
        assert 1.5 < samples / rate < 6
        (item,) = event["response"]["output"]
        assert WORDS.split()[0] in words(item["content"][0]["transcript"])


def test_another_rate_is_refused_by_name(server):
    with connect(server.realtime_url, **PATIENT_WEBSOCKET) as connection:
        connection.send(json.dumps({"type": "session.update", "session": {
            "type": "realtime",
            "audio": {"input": {"format": {"type": "audio/pcm", "rate": 44100}}}}}))
        error = until(connection, "error")["error"]
        assert error["param"] == "session.audio.input.format.rate"
        assert "8000, 16000, 24000, 48000" in error["message"]
