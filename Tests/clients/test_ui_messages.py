"""The UI message stream of `POST /api/chat`, parsed with pydantic-ai's models of the Vercel AI
SDK's parts. A part that does not fit its class, or has an unknown field, fails."""

import http.client
import json
import urllib.parse

import pytest
from pydantic_ai.ui.vercel_ai import response_types
from parley_server import HANG_GUARD
from realtime_session import TOOL

CLASSES = {
    cls.model_fields["type"].default: cls
    for name, cls in vars(response_types).items()
    if name.endswith("Chunk") and "type" in getattr(cls, "model_fields", {})
}


class Chat:
    """A chat of one browser tab with a server."""

    def __init__(self, server, chat_id):
        self.address = urllib.parse.urlsplit(server.base_url).netloc
        self.chat_id = chat_id

    def say(self, text, **fields):
        """Sends a user's message; returns the answer with its head read."""
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
        body = {"id": self.chat_id, "trigger": "submit-message", "messages": [message], **fields}
        return self._ask("POST", "/api/chat", json.dumps(body))

    def resume(self):
        """Requests the reply in progress."""
        return self._ask("GET", f"/api/chat/{self.chat_id}/stream", None)

    def stop(self):
        """Wants no more of the reply in progress."""
        return self._ask("DELETE", f"/api/chat/{self.chat_id}/stream", None)

    def _ask(self, method, path, body):
        connection = http.client.HTTPConnection(self.address, timeout=HANG_GUARD)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse()


def part(line):
    """The part in a line of the stream, validated; None for the last line."""
    data = line.removeprefix(b"data: ").strip()
    if data == b"[DONE]":
        return None
    value = json.loads(data)
    cls = CLASSES[value["type"]]
    cls.model_validate(value)
    known = {field.alias or name for name, field in cls.model_fields.items()}
    assert set(value) <= known, f"{value} has what {cls.__name__} does not know"
    return value


def parts(answer):
    """All parts of a stream, which must have an end."""
    lines = [line for line in answer if line.startswith(b"data: ")]
    read = [part(line) for line in lines]
    assert read.pop() is None
    return read


def types(read):
    return [part["type"] for part in read]


def test_a_reply(piped):
    answer = Chat(piped, "reply").say("hello")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    read = parts(answer)
    assert types(read)[:3] == ["start", "start-step", "text-start"]
    assert types(read)[-3:] == ["text-end", "finish-step", "finish"]
    text = "".join(part["delta"] for part in read if part["type"] == "text-delta")
    assert text == "You said: hello"


def test_calls_of_the_clients_functions(piped):
    tools = {
        "get_weather": {"description": TOOL["description"], "parameters": TOOL["parameters"]}}
    read = parts(Chat(piped, "calls").say("weather in Oslo and Rome", tools=tools))
    inputs = [part["input"] for part in read if part["type"] == "tool-input-available"]
    assert inputs == [{"city": "Oslo"}, {"city": "Rome"}]
    started = [part["toolCallId"] for part in read if part["type"] == "tool-input-start"]
    assert len(set(started)) == 2


def leave_halfway(chat):
    """Begins a reply, and closes the request once its first half is there."""
    answer = chat.say("hello", system="Stop halfway.")
    while True:
        line = answer.readline()
        if line.startswith(b"data: ") and part(line)["type"] == "text-delta":
            break
    answer.close()


def test_a_reply_that_was_lost_is_shown_again(piped, model):
    model.second_half.clear()
    model.finished.clear()
    chat = Chat(piped, "lost")
    try:
        leave_halfway(chat)
        again = chat.resume()
        assert again.status == 200
    finally:
        model.second_half.set()
    read = parts(again)
    assert types(read)[0] == "start" and types(read)[-1] == "finish"
    text = "".join(part["delta"] for part in read if part["type"] == "text-delta")
    assert text.startswith("The first half ") and text.endswith("came later.")
    assert chat.resume().status == 204


def test_a_reply_is_stopped_and_shown_as_far_as_it_came(piped, model):
    model.second_half.clear()
    chat = Chat(piped, "stopped")
    try:
        # As useChat stops: the request is closed, which alone ends nothing.
        leave_halfway(chat)
        assert chat.stop().status == 204
        read = parts(chat.resume())
    finally:
        model.second_half.set()
    assert types(read)[0] == "start" and types(read)[-1] == "abort"
    text = "".join(part["delta"] for part in read if part["type"] == "text-delta")
    assert text and "came later." not in text
    assert [chat.resume().status, chat.stop().status] == [204, 204]


def test_a_model_that_fails_is_an_error_part(piped):
    read = parts(Chat(piped, "fails").say("please die"))
    assert "error" in types(read) and "finish" not in types(read)


@pytest.mark.parametrize(
    "body", [{"id": "c"}, {"id": "c", "messages": "hello"}, {"id": 5, "messages": []}])
def test_a_wrong_request_is_refused(piped, body):
    chat = Chat(piped, "wrong")
    answer = chat._ask("POST", "/api/chat", json.dumps(body))
    assert answer.status == 400
    assert json.load(answer)["error"]["type"] == "invalid_request_error"
