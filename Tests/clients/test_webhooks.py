"""Webhooks: signed as Standard Webhooks has it, at least once, also where the receiver is away and the
server is killed meanwhile."""

import collections
import signal
import subprocess
import time

import pytest
from parley_server import BINARY, HANG_GUARD, ParleyServer, free_port
from webhook_receiver import SECRET, WebhookReceiver

CONVERSATION = ["session.started", "turn.completed", "session.ended"]


def arguments(url, tmp_path, *more):
    return ["--webhook-url", url, "--records-spool", str(tmp_path / "spool.db"), *more]


def server(url, tmp_path, *more):
    return ParleyServer(*arguments(url, tmp_path, *more), PARLEY_WEBHOOK_SECRET=SECRET)


def test_a_conversation_is_told(tmp_path):
    with WebhookReceiver() as receiver, server(receiver.url, tmp_path) as parley:
        assert parley.talk("--text", "hello").returncode == 0
        receiver.wait(lambda: len(receiver.events) == 3, HANG_GUARD)
        assert sorted(receiver.types()) == sorted(CONVERSATION)
        while parley.metric("parley_webhooks_delivered_total") != "3":
            time.sleep(0.05)
        assert parley.metric("parley_webhooks_waiting") == "0"
    events = {body["type"]: body["data"] for _, body in receiver.events}
    session = events["session.started"]["session_id"]
    assert all(data["session_id"] == session for data in events.values())
    turn = events["turn.completed"]
    assert turn["turn"]["status"] == "completed"
    assert turn["output"][0]["role"] == "assistant"
    record = events["session.ended"]["record"]
    assert record["end"]["reason"] == "client_closed" and len(record["items"]) == 2


def test_only_what_is_wanted_is_told(tmp_path):
    with WebhookReceiver() as receiver:
        with server(receiver.url, tmp_path, "--webhook-events", "session.ended") as parley:
            assert parley.talk("--text", "hello").returncode == 0
            receiver.wait(lambda: receiver.events, HANG_GUARD)
    assert receiver.types() == ["session.ended"]


def test_a_receiver_that_fails_is_asked_again(tmp_path):
    with WebhookReceiver() as receiver, server(receiver.url, tmp_path) as parley:
        receiver.status = 503
        assert parley.talk("--text", "hello").returncode == 0
        receiver.wait(lambda: len(set(receiver.attempts)) == 3, HANG_GUARD)
        assert not receiver.events
        receiver.status = 200
        receiver.wait(lambda: len(receiver.events) == 3, HANG_GUARD)
        counts = collections.Counter(receiver.attempts)
        # Every attempt of an event has its id.
        assert len(counts) == 3 and min(counts.values()) >= 2


def test_an_event_that_is_gone_is_not_sent_again(tmp_path):
    with WebhookReceiver() as receiver, server(receiver.url, tmp_path) as parley:
        receiver.status = 410
        assert parley.talk("--text", "hello").returncode == 0
        receiver.wait(lambda: len(receiver.attempts) == 3, HANG_GUARD)
        while parley.metric("parley_webhooks_lost_total") != "3":
            time.sleep(0.05)
        assert parley.metric("parley_webhooks_waiting") == "0"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_what_waits_survives_the_end_of_the_server(tmp_path, ending):
    port = free_port()
    with server(f"http://127.0.0.1:{port}/hooks", tmp_path) as parley:
        assert parley.talk("--text", "hello").returncode == 0
        while parley.metric("parley_webhooks_waiting") != "3":
            time.sleep(0.05)
        parley.process.send_signal(ending)
        parley.process.wait(HANG_GUARD)
        parley.expected_status = 0 if ending == signal.SIGTERM else -ending
    with WebhookReceiver(port) as receiver, server(receiver.url, tmp_path):
        receiver.wait(lambda: len(receiver.events) == 3, HANG_GUARD)
    assert sorted(receiver.types()) == sorted(CONVERSATION)


def test_a_receiver_without_a_secret_is_refused():
    done = subprocess.run(
        [BINARY, "serve", "--webhook-url", "http://127.0.0.1:1/"], capture_output=True, text=True,
        timeout=HANG_GUARD, check=False)
    assert done.returncode == 64 and "webhook-secret" in done.stderr.splitlines()[-1]
