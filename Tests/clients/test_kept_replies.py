"""Replies of `/api/chat` that are kept for clients that lost their connection. Each belongs to one
credential; other credentials can neither read, end nor evict it."""

import contextlib
import http.client
import json
import time

import jwt
import pytest
from parley_server import HANG_GUARD, ParleyServer

A, B = "sk-key-a-0123456789abcdef", "sk-key-b-0123456789abcdef"
OPERATOR = "sk-operator-0123456789abcdef"
SECRET = "a-secret-of-many-more-than-the-thirty-two-characters-that-it-must-have"
PLACES = 4


@pytest.fixture
def server(model, tmp_path):
    """A server with two keys and few places for replies, and a model that waits halfway for the
    test."""
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{A}\n{B}\n{OPERATOR} operator\n")
    with ParleyServer(
        "--llm", model.url, "--api-keys-file", str(keys), "--jwt-audience", "parley",
        "--max-resumable-replies", str(PLACES), "--resume-timeout-ms", "600000",
        PARLEY_LLM_KEY="the-key", PARLEY_JWT_SECRET=SECRET,
    ) as running:
        model.second_half.clear()
        try:
            yield running
        finally:
            model.second_half.set()


def ask(server, method, path, credential=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    headers = {"Content-Type": "application/json"}
    if credential:
        headers["Authorization"] = f"Bearer {credential}"
    connection.request(method, path, body and json.dumps(body), headers)
    return connection.getresponse()


def say(server, credential, chat, text="hello", **fields):
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]}
    body = {"id": chat, "trigger": "submit-message", "messages": [message], **fields}
    return ask(server, "POST", "/api/chat", credential, body)


def lose(server, credential, chat, **fields):
    """Requests a reply and disconnects once it has begun; returns its message's id."""
    with contextlib.closing(say(server, credential, chat, **fields)) as answer:
        assert answer.status == 200
        return begin(answer)


def begin(answer):
    """Reads to the first text of a reply; returns its message's id."""
    message = None
    while line := answer.readline():
        if line.startswith(b"data: {"):
            part = json.loads(line.removeprefix(b"data: "))
            message = part.get("messageId", message)
            if part["type"] == "text-delta":
                return message
    raise EOFError


def resume(server, credential, chat):
    """The id of the resumed message, or the status if there is none."""
    with contextlib.closing(
        ask(server, "GET", f"/api/chat/{chat}/stream", credential)
    ) as answer:
        return begin(answer) if answer.status == 200 else answer.status


def token(subject):
    return jwt.encode(
        {"sub": subject, "aud": "parley", "exp": time.time() + 600}, SECRET, algorithm="HS256")


def client_secret(server, key):
    return json.load(ask(server, "POST", "/v1/realtime/client_secrets", key, {}))["value"]


def turns_under_way(server):
    with contextlib.closing(ask(server, "GET", "/metrics", OPERATOR)) as answer:
        lines = answer.read().decode().splitlines()
    return [line for line in lines if line.startswith("parley_text_turns ")] != (
        ["parley_text_turns 0"])


def test_only_the_credential_that_asked_finds_the_reply(server):
    kept = lose(server, A, "mine", system="Stop halfway.")
    others = [
        B, client_secret(server, A), client_secret(server, B), token("one"), token(A)]
    for credential in others:
        assert resume(server, credential, "mine") == 204
    for credential in [None, "", "sk-wrong-0123456789abcdef"]:
        assert resume(server, credential, "mine") == 401
    for guessed in ["min", "mine%00", "mine/../mine", "MINE", "%6dine%20", kept]:
        assert resume(server, B, guessed) in (204, 404)
    assert resume(server, A, "mine") == kept


def test_tokens_of_two_subjects_have_two_chats_of_one_id(server):
    kept = {who: lose(server, token(who), "c", system="Stop halfway.") for who in ("one", "two")}
    assert kept["one"] != kept["two"]
    for who, message in kept.items():
        assert resume(server, token(who), "c") == message


def test_two_keys_have_two_chats_of_one_id(server, model):
    kept = lose(server, A, "c", system="Stop halfway.")
    other = lose(server, B, "c", system="Stop halfway.")
    assert kept != other
    assert (resume(server, A, "c"), resume(server, B, "c")) == (kept, other)
    model.second_half.set()
    for key, message in ((A, kept), (B, other)):
        with contextlib.closing(ask(server, "GET", "/api/chat/c/stream", key)) as answer:
            assert message.encode() in (body := answer.read()) and b'"finish"' in body


def test_many_replies_on_their_way_push_out_none_of_another_key(server):
    kept = lose(server, A, "mine", system="Stop halfway.")
    for number in range(3 * PLACES):
        lose(server, B, f"flood-{number}", system="Stop halfway.")
    assert resume(server, A, "mine") == kept
    # A key with fewer replies than its share finds room even though all places are taken.
    second = lose(server, A, "second", system="Stop halfway.")
    assert resume(server, A, "second") == second
    assert resume(server, A, "mine") == kept


def test_many_complete_replies_push_out_none_of_another_key(server, model):
    kept = lose(server, A, "mine", system="Stop halfway.")
    for number in range(3 * PLACES):
        model.second_half.clear()
        lose(server, B, f"flood-{number}", system="Stop halfway.")
        model.second_half.set()
        deadline = time.monotonic() + HANG_GUARD
        while turns_under_way(server):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert resume(server, A, "mine") == kept
