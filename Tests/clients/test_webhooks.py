"""Webhooks: signed as Standard Webhooks has it, at least once, also where the receiver is away and the
server is killed meanwhile."""

import collections
import signal
import sqlite3
import subprocess
import time

import pytest
from parley_server import BINARY, HANG_GUARD, ParleyServer, free_port
from test_signals import wait_for_log
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


def test_the_log_says_what_a_receiver_has_answered(tmp_path):
    with WebhookReceiver() as receiver:
        url = receiver.url.replace("://", "://user:pass-word@") + "?token=confidential"
        receiver.status = 503
        receiver.headers = {"content-type": "text/html; charset=utf-8"}
        receiver.body = b"<html><h1>Down for maintenance</h1></html>"
        with server(url, tmp_path) as parley:
            assert parley.talk("--text", "hello").returncode == 0
            receiver.wait(lambda: len(receiver.attempts) >= 6, HANG_GUARD)
            log = wait_for_log(parley, "service failed")
    failed = [line for line in log.splitlines() if "service failed" in line]
    assert len(failed) == 1
    for fact in (
        "service=webhooks", "status=503", f"url={receiver.url}", "text/html",
        "Down for maintenance", "see the log of the service; a proxy may answer in its place",
    ):
        assert fact in failed[0], failed[0]
    assert "pass-word" not in log and "confidential" not in log


def test_the_log_says_that_no_receiver_is_there(tmp_path):
    url = f"http://127.0.0.1:{free_port()}/hooks"
    with server(url, tmp_path) as parley:
        assert parley.talk("--text", "hello").returncode == 0
        log = wait_for_log(parley, "service failed")
    line, = [line for line in log.splitlines() if "service failed" in line]
    assert "service=webhooks" in line and f"url={url}" in line and "status=" not in line
    assert "check that the service runs, and webhook-url" in line


def test_a_receiver_that_is_gone_gets_nothing_more_until_a_reload(tmp_path):
    with WebhookReceiver() as receiver, server(receiver.url, tmp_path) as parley:
        receiver.status = 410
        assert parley.talk("--text", "hello").returncode == 0
        while parley.metric("parley_webhooks_lost_total") != "3":
            time.sleep(0.05)
        log = wait_for_log(parley, "wants no more (410)")
        assert log.count("wants no more (410)") == 1
        attempts = len(receiver.attempts)
        assert parley.talk("--text", "hello").returncode == 0
        while parley.metric("parley_webhooks_lost_total") != "6":
            time.sleep(0.05)
        assert len(receiver.attempts) == attempts
        assert parley.metric("parley_webhooks_waiting") == "0"
        receiver.status = 200
        parley.process.send_signal(signal.SIGHUP)
        wait_for_log(parley, "webhook settings reloaded")
        assert parley.talk("--text", "hello").returncode == 0
        receiver.wait(lambda: len(receiver.events) == 3, HANG_GUARD)


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_is_left_alone_for_as_long_as_it_asks(tmp_path, status):
    """svix-webhooks#2200: without Retry-After the second attempt comes after a second."""
    with WebhookReceiver() as receiver, server(
        receiver.url, tmp_path, "--webhook-events", "session.started"
    ) as parley:
        (receiver.status, receiver.headers) = (status, {"Retry-After": "120"})
        begun = time.time()
        assert parley.talk("--text", "hello").returncode == 0
        wait_for_log(parley, "Retry-After 120 s")
        # What comes meanwhile waits, too.
        assert parley.talk("--text", "hello").returncode == 0
        while parley.metric("parley_webhooks_waiting") != "2":
            time.sleep(0.05)
        with sqlite3.connect(tmp_path / "spool.db") as spool:
            rows = spool.execute("SELECT attempts, due_ms FROM webhooks ORDER BY rowid").fetchall()
        assert rows[0][0] == 1 and rows[0][1] > (begun + 119) * 1000
        assert len(receiver.attempts) == 1


def test_two_servers_of_one_spool_send_each_event_once(tmp_path):
    """graphql-engine#6844: the receiver is slower than both look into the spool."""
    # An attempt without an answer is over after this time, and another follows.
    patience = ("--webhook-timeout-ms", "120000")
    with WebhookReceiver() as receiver, server(receiver.url, tmp_path, *patience) as one, \
            server(receiver.url, tmp_path, *patience) as two:
        receiver.gate.clear()
        for parley in (one, two):
            assert parley.talk("--text", "hello").returncode == 0
        receiver.wait(lambda: len(set(receiver.attempts)) == 6, HANG_GUARD)
        receiver.gate.set()
        while sum(int(p.metric("parley_webhooks_delivered_total")) for p in (one, two)) < 6:
            time.sleep(0.05)
        assert len(receiver.attempts) == 6


def test_a_clock_that_is_set_back_does_not_stop_retries(tmp_path):
    with WebhookReceiver() as receiver:
        receiver.status = 500
        with server(receiver.url, tmp_path, "--webhook-events", "session.started") as parley:
            assert parley.talk("--text", "hello").returncode == 0
            receiver.wait(lambda: receiver.attempts, HANG_GUARD)
        # As if the last attempt had been an hour ahead of the clock.
        with sqlite3.connect(tmp_path / "spool.db") as spool:
            spool.execute("UPDATE webhooks SET due_ms = due_ms + 3600000")
        receiver.status = 200
        with server(receiver.url, tmp_path, "--webhook-events", "session.started"):
            receiver.wait(lambda: receiver.events, HANG_GUARD)


def test_two_secrets_sign_while_one_replaces_the_other(tmp_path):
    following = "whsec_" + "Zm9sbG93aW5nLXNlY3JldC1vZi1lbm91Z2gtYnl0ZXM="
    file = tmp_path / "secrets"
    file.write_text(f"\ufeff# now\n{SECRET}\r\n")
    arguments_ = arguments("", tmp_path)[2:]
    with WebhookReceiver() as receiver, ParleyServer(
        "--webhook-url", receiver.url, *arguments_, "--webhook-events", "session.started",
        "--webhook-secret-file", str(file)
    ) as parley:
        def reload(text, line):
            file.write_text(text)
            parley.process.send_signal(signal.SIGHUP)
            wait_for_log(parley, line)

        def told(secret):
            receiver.secret = secret
            count = len(receiver.events)
            assert parley.talk("--text", "hello").returncode == 0
            receiver.wait(lambda: len(receiver.events) == count + 1, HANG_GUARD)

        told(SECRET)
        reload(f"{SECRET}\n{following}\n", "webhook settings reloaded")
        told(SECRET)
        told(following)
        reload("whsec_short\n", "webhook secrets not reloaded: the old ones stay")
        told(following)


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
