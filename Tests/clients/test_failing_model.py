"""A model that fails: what the operator is told at the start, what the user hears, and who is told
the cause."""

import base64
import json

import pytest
from event_schema import server_event
from faulty_service import FaultyService, answer
from parley_server import PATIENT_WEBSOCKET, ParleyServer, free_port
from test_signals import wait_for_log
from websockets.sync.client import connect

KEY = "k" * 24
REFUSED = answer(json.dumps({"error": {"message": "Incorrect API key provided."}}).encode(), status=401)
OPTIONS = ["--service-retries", "0", "--explain-failures"]


def spoken_turn(server, **headers):
    """The response to a typed message, its words and the seconds of its sound."""
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    words, sound = "", 0
    with connect(server.realtime_url, additional_headers=headers, **PATIENT_WEBSOCKET) as connection:
        connection.send(json.dumps({"type": "conversation.item.create", "item": message}))
        connection.send(json.dumps({"type": "response.create"}))
        while True:
            event = server_event(connection.recv())
            match event["type"]:
                case "response.output_audio_transcript.delta":
                    words += event["delta"]
                case "response.output_audio.delta":
                    sound += len(base64.b64decode(event["delta"])) / 48_000
                case "response.done":
                    return event["response"], words, sound
                case "error":
                    raise AssertionError(event)


def cause(response):
    assert response["status"] == "failed"
    return response["status_details"]["error"]["message"]


def test_the_start_says_what_is_wrong_with_a_service():
    unreachable = f"http://127.0.0.1:{free_port()}/v1"
    with FaultyService(REFUSED, lists_models=True) as service, \
            ParleyServer("--llm", service.url, "--stt-url", unreachable) as server:
        log = wait_for_log(server, "service=llm", "service=stt")
        line = next(line for line in log.splitlines() if "service=llm" in line)
        assert f"{service.url}/models" in line and "status=401" in line
        assert "Incorrect API key provided." in line and "begins=" in line and "check its key" in line
        line = next(line for line in log.splitlines() if "service=stt" in line)
        assert f"{unreachable}/models" in line
        assert "check that the service runs, and stt-url" in line


def test_the_user_hears_an_apology_and_the_operator_the_cause():
    with FaultyService(REFUSED) as service, ParleyServer("--llm", service.url, *OPTIONS) as server:
        response, words, sound = spoken_turn(server)
        assert words == "I'm sorry, I can't answer that just now. Please try again in a moment."
        assert 2 < sound < 10
        assert [item["status"] for item in response["output"]] == ["completed"]
        # A caller on this machine, where no key is needed, may know the cause.
        assert f"{service.url}/chat/completions" in cause(response)
        assert "check its key" in cause(response)
        assert server.metric("parley_apologies_total") == "1"
        talk = server.talk("--text", "hello")
        assert "check its key" in talk.stdout + talk.stderr


@pytest.mark.parametrize("phrase, said", [("", ""), ("No answer.|de: Keine Antwort.", "No answer.")])
def test_the_apology_is_a_setting(phrase, said):
    with FaultyService(REFUSED) as service, \
            ParleyServer("--llm", service.url, *OPTIONS, "--apology-phrase", phrase) as server:
        response, words, sound = spoken_turn(server)
        assert words == said and (sound > 0) == bool(said)
        assert "401" in cause(response)


def test_others_are_not_told_the_cause(tmp_path):
    """One whose key does not open the operator's pages, one behind a proxy, and one where it is off."""
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY} name=shop\n")
    with FaultyService(REFUSED) as service:
        for options, headers in [
            (["--api-keys-file", str(keys)], {"Authorization": f"Bearer {KEY}"}),
            ([], {"X-Forwarded-For": "192.0.2.1"}),
            (["--explain-failures", "false"], {}),
        ]:
            with ParleyServer("--llm", service.url, *OPTIONS, *options) as server:
                message = cause(spoken_turn(server, **headers)[0])
                assert "401" in message and service.url not in message
                assert "Incorrect" not in message and "key" not in message
