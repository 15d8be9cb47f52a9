"""The question about a session that is over (`after-call` of its agent): what the model is asked, and what the
record, the receiver of webhooks and the command line have of its answer."""

import contextlib
import json
import signal

import pytest
from parley_server import HANG_GUARD, ParleyServer
from scripted_model import HALVES
from test_agents import check
from test_records import ask, eventually, records, sessions, typed
from test_signals import wait_for_log
from webhook_receiver import SECRET, WebhookReceiver

HEADING = "This conversation is over:\n\n"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "records.db")


def agents(tmp_path, **after_call):
    """A file with one agent, which asks this about its sessions."""
    file = tmp_path / "agents.yaml"
    agent = {"name": "desk", "instructions": "You sell bread.",
             "after-call": {"instructions": "What was wanted?", "model": "careful"} | after_call}
    file.write_text(json.dumps([agent]))
    return str(file)


@contextlib.contextmanager
def desk(model, tmp_path, *arguments, after_call=(), **environment):
    with ParleyServer(
        "--llm", model.url, "--agents", agents(tmp_path, **dict(after_call)), "--default-agent", "desk",
        *arguments, PARLEY_LLM_KEY="the-key", **environment,
    ) as server:
        yield server


def answered(path):
    """The only record, once the model has answered."""
    return eventually(lambda: [each for each in records(path) if each.get("after_call")])[0]


def test_the_answer_is_in_the_record_and_told(model, path, tmp_path):
    asked = len(model.requests)
    with WebhookReceiver() as receiver, desk(
        model, tmp_path, "--records", path, "--webhook-url", receiver.url, "--webhook-events",
        "session.ended,session.after_call", PARLEY_WEBHOOK_SECRET=SECRET,
    ) as server:
        with typed(server, "Two loaves, please."):
            assert "after_call" not in eventually(lambda: records(path))[0]
        record = answered(path)
        words = f"You said: {HEADING}User: Two loaves, please.\nAgent: You said: Two loaves, please."
        assert record["after_call"] == {"text": words} and record["end"]["reason"] == "client_closed"
        receiver.wait(lambda: len(receiver.events) == 2, HANG_GUARD)
        # The answer may be there before the first event has left: they then come in either order.
        data = {body["type"]: body["data"] for _, body in receiver.events}
        ended, told = data["session.ended"], data["session.after_call"]
        assert ended["record"]["after_call"] is None
        assert told == {
            "session_id": record["id"], "agent": "desk", "after_call": record["after_call"]}
        shown = sessions("show", path, record["id"])
        assert "after the call: You said: This conversation is over: User: Two loaves" in shown
        _, kept = ask(server, f"/admin/records/{record['id']}")
        assert kept["documents"] == [record]
        assert server.metric('parley_after_calls_total{outcome="answered"}') == "1"
    question = [each["body"] for each in model.requests[asked:]][-1]
    assert len(model.requests) == asked + 2 and question["model"] == "careful"
    assert question["messages"][0] == {"role": "system", "content": "What was wanted?"}
    assert question["messages"][1]["content"].startswith(HEADING)


def test_facts_by_a_schema_are_told_without_records(model, tmp_path):
    schema = {"type": "object", "properties": {"loaves": {"type": "integer"}}}
    asked = {"schema": schema, "instructions": 'write Here: {"loaves": 2}'}
    with WebhookReceiver() as receiver, desk(
        model, tmp_path, "--webhook-url", receiver.url, "--records-spool",
        str(tmp_path / "spool.db"), "--webhook-events", "session.after_call",
        after_call=asked, PARLEY_WEBHOOK_SECRET=SECRET,
    ) as server:
        with typed(server, "Two loaves, please."):
            pass
        receiver.wait(lambda: receiver.events, HANG_GUARD)
    assert receiver.events[0][1]["data"]["after_call"] == {"data": {"loaves": 2}}
    instructions = model.requests[-1]["body"]["messages"][0]["content"]
    assert json.loads(instructions.splitlines()[-1]) == schema


def test_redaction_counts_for_the_answer(model, path, tmp_path):
    with desk(model, tmp_path, "--records", path, "--records-redaction", "digits") as server:
        with typed(server, "Room 4711"):
            pass
        text = answered(path)["after_call"]["text"]
    assert "Room ####" in text and "4711" not in text
    assert "Room 4711" in model.requests[-1]["body"]["messages"][-1]["content"]


def test_a_failing_model_is_one_line_and_the_record_says_so(model, path, tmp_path):
    with desk(model, tmp_path, "--records", path, after_call={"instructions": "x"}) as server:
        with typed(server, "refuse this"):
            pass
        error = answered(path)["after_call"]["error"]
        log = server.log_path.read_text()
    assert error["code"] in ("upstream_error", "agent_unavailable") and error["message"]
    assert log.count("service failed") == 1


@pytest.mark.parametrize("milliseconds, is_answered", [("60000", True), ("1000", False)])
def test_a_drain_waits_for_the_answer(model, path, tmp_path, milliseconds, is_answered):
    model.second_half.clear()
    with desk(model, tmp_path, "--records", path, "--drain-timeout-ms", milliseconds,
              after_call={"instructions": "halfway"}) as server:
        asked = len(model.requests)
        with typed(server, "hello"):
            pass
        eventually(lambda: len(model.requests) == asked + 2)
        assert eventually(lambda: [each for each in records(path) if each["end"]])[0][
            "after_call"] is None
        server.process.send_signal(signal.SIGTERM)
        if is_answered:
            wait_for_log(server, "drain")
            model.second_half.set()
        assert server.process.wait(HANG_GUARD) == 0
    model.second_half.set()
    answer = records(path)[0]["after_call"]
    if is_answered:
        assert answer == {"text": "".join(HALVES)}
    else:
        assert answer["error"]["code"] == "reply_stopped"


def test_without_a_place_for_the_answer_the_start_says_so(tmp_path):
    found = check("--agents", agents(tmp_path))
    assert found.returncode == 0 and "after-call of agents is not asked" in found.stderr
    found = check("--agents", agents(tmp_path), "--records", str(tmp_path / "r.db"))
    assert found.returncode == 0 and "after-call" not in found.stderr
    found = check("--agents", agents(tmp_path, schema="text"))
    assert found.returncode != 0 and "after-call: schema must be" in found.stderr
