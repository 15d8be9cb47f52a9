"""Agents that the operator describes in a file: who has which, what it says itself, what a client may
change of it, and what a reload does."""

import base64
import json
import os
import signal
import subprocess

import pytest
from event_schema import server_event
from openai import BadRequestError, OpenAI, RateLimitError
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer
from test_signals import wait_for_log
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

AGENTS = """
- name: desk
  instructions: You answer the telephone of a bakery.
  greeting: Good morning, this is the bakery.
  voice: ash
  numbers: ["+49 30 555"]
  max-session-seconds: 600
  clients-may-change: [turn-detection]
- name: booth
  greeting: Come in.
  sessions: 1
- name: quiet
  instructions: Say little.
  model: small
"""
BAKERY = "Good morning, this is the bakery."
KEYS = """
k-of-the-operator-0123456789 operator
k-of-the-bakery-0123456789 name=bakery agents=desk
k-of-everybody-0123456789 name=all
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    (folder / "agents.yaml").write_text(AGENTS)
    (folder / "keys").write_text(KEYS)
    return folder


@pytest.fixture(scope="module")
def server(files):
    with ParleyServer(
        "--agents", str(files / "agents.yaml"), "--api-keys-file", str(files / "keys"),
        "--telephone", "twilio", "--playout-lead-ms", "60000",
    ) as server:
        yield server


def opened(server, query="", key="k-of-everybody-0123456789", path="/v1/realtime"):
    return connect(
        f"ws://127.0.0.1:{server.port}{path}{query}",
        additional_headers={"Authorization": f"Bearer {key}"}, **PATIENT_WEBSOCKET)


def until(connection, kind):
    """Reads to the first event of a kind; an `error` before it fails the test."""
    while True:
        event = server_event(connection.recv(timeout=HANG_GUARD))
        if event["type"] == kind:
            return event
        assert event["type"] != "error", event


def said(response):
    return [part["transcript"] for item in response["output"] for part in item["content"]]


@pytest.mark.parametrize("query, key, path", [
    ("?agent=desk", "k-of-everybody-0123456789", "/v1/realtime"),
    ("?model=any", "k-of-everybody-0123456789", "/v1/agents/desk/realtime"),
    ("", "k-of-the-bakery-0123456789", "/v1/realtime"),
])
def test_a_query_a_path_and_a_key_mean_an_agent(server, query, key, path):
    with opened(server, query, key, path) as connection:
        session = until(connection, "session.created")["session"]
        assert session["instructions"] == "You answer the telephone of a bakery."
        assert session["audio"]["output"]["voice"] == "ash"
        response = until(connection, "response.done")["response"]
        assert response["metadata"] == {"parley_phrase": "greeting"} and said(response) == [BAKERY]


def test_an_agent_names_its_model(server):
    with opened(server, "?agent=quiet&model=large") as connection:
        assert until(connection, "session.created")["session"]["model"] == "small"


def test_without_a_name_there_is_no_agent(server):
    with opened(server) as connection:
        assert until(connection, "session.created")["session"]["instructions"] == ""


@pytest.mark.parametrize("query, key, status, code", [
    ("?agent=nobody", "k-of-everybody-0123456789", 404, "agent_not_found"),
    ("?agent=quiet", "k-of-the-bakery-0123456789", 403, "agent_not_allowed"),
])
def test_an_agent_that_is_not_there_or_not_allowed(server, query, key, status, code):
    with pytest.raises(InvalidStatus) as caught:
        opened(server, query, key)
    assert caught.value.response.status_code == status
    assert json.loads(caught.value.response.body)["error"]["code"] == code


def test_a_client_changes_what_the_agent_allows(server):
    with opened(server, "?agent=desk") as connection:
        until(connection, "session.created")
        connection.send(json.dumps({"type": "session.update", "session": {
            "type": "realtime", "instructions": "Obey me.",
            "tools": [{"type": "function", "name": "pay"}],
            "audio": {"input": {"turn_detection": None, "noise_reduction": {"type": "near_field"}},
                      "output": {"voice": "coral"}}}}))
        session = until(connection, "session.updated")["session"]
        assert session["instructions"] == "You answer the telephone of a bakery."
        assert session["tools"] == [] and session["audio"]["output"]["voice"] == "ash"
        assert session["audio"]["input"]["turn_detection"] is None
        assert session["audio"]["input"]["noise_reduction"] is None


def test_a_client_secret_is_bound_to_its_agent(server):
    client = OpenAI(api_key="k-of-the-bakery-0123456789", base_url=server.base_url)
    # The application may change more than its user.
    made = client.realtime.client_secrets.create(
        extra_body={"agent": "desk"},
        session={"type": "realtime", "audio": {"output": {"voice": "coral"}}})
    with opened(server, key=made.value) as connection:
        session = until(connection, "session.created")["session"]
        assert session["instructions"] == "You answer the telephone of a bakery."
        assert session["audio"]["output"]["voice"] == "coral"
        assert said(until(connection, "response.done")["response"]) == [BAKERY]
    with pytest.raises(InvalidStatus) as caught:
        opened(server, "?agent=quiet", made.value)
    assert caught.value.response.status_code == 403
    wrong = client.realtime.client_secrets.with_raw_response
    for agent in ("quiet", "nobody"):
        with pytest.raises(BadRequestError, match="no agent of that name"):
            wrong.create(extra_body={"agent": agent})


def call(server, **start):
    """The first words of a call: its media, until a second of it has come."""
    message = {"event": "start", "sequenceNumber": "1", "streamSid": "MZ" + "0" * 32, "start": {
        "accountSid": "AC" + "0" * 32, "streamSid": "MZ" + "0" * 32, "callSid": "CA" + "0" * 32,
        "tracks": ["inbound"], "customParameters": start, "mediaFormat": {
            "encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}}}
    with opened(server, path="/twilio") as connection:
        connection.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        connection.send(json.dumps(message))
        heard = 0
        while heard < 8_000:
            event = json.loads(connection.recv(timeout=HANG_GUARD))
            if event["event"] == "media":
                heard += len(base64.b64decode(event["media"]["payload"]))


@pytest.mark.parametrize("start", [{"to": "+4930555"}, {"agent": "desk"}])
def test_the_called_number_and_a_parameter_mean_an_agent(server, start):
    call(server, **start)


def test_an_agent_has_so_many_sessions_at_one_time(server):
    client = OpenAI(
        api_key="k-of-everybody-0123456789", max_retries=0,
        base_url=f"http://127.0.0.1:{server.port}/v1/agents/booth")
    hello = [{"role": "user", "content": "Hello."}]
    with opened(server, path="/v1/agents/booth/realtime") as connection:
        assert said(until(connection, "response.done")["response"]) == ["Come in."]
        with pytest.raises(InvalidStatus) as caught:
            opened(server, "?agent=booth")
        assert caught.value.response.status_code == 429
        with pytest.raises(RateLimitError, match="This agent has all the sessions"):
            client.chat.completions.create(model="any", messages=hello)
        log = wait_for_log(server, "sessions of an agent")
        assert "agent=booth" in log
    with opened(server, "?agent=quiet") as connection:
        until(connection, "session.created")


def test_an_agent_answers_text_requests(files, model):
    hello = [{"role": "system", "content": "Obey me."}, {"role": "user", "content": "Hello."}]
    options = ["--llm", model.url, "--agents", str(files / "agents.yaml")]
    with ParleyServer(*options, PARLEY_LLM_KEY="the-key") as server:
        for base, query in [
            (f"http://127.0.0.1:{server.port}/v1/agents/quiet", {}),
            (server.base_url, {"agent": "quiet"}),
        ]:
            client = OpenAI(api_key="none", max_retries=0, base_url=base)
            reply = client.chat.completions.create(
                model="large", messages=hello, extra_query=query)
            assert reply.model == "small"
            assert reply.choices[0].message.content == "You said: Hello."
            body = model.requests[-1]["body"]
            assert body["model"] == "small"
            assert body["messages"] == [
                {"role": "system", "content": "Say little."}, {"role": "user", "content": "Hello."}]


def test_sighup_reads_the_agents_anew_and_a_bad_file_changes_nothing(tmp_path):
    path = tmp_path / "parley.yaml"
    path.write_text("agents:\n  - {name: a, instructions: One.}\ndefault-agent: a\n")

    def instructions(server):
        with connect(server.realtime_url, **PATIENT_WEBSOCKET) as connection:
            return until(connection, "session.created")["session"]["instructions"]

    with ParleyServer("--config", str(path)) as server:
        assert instructions(server) == "One."
        path.write_text("agents:\n  - {name: a, instructions: Two.}\ndefault-agent: a\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "agents reloaded")
        assert instructions(server) == "Two."
        path.write_text("agents:\n  - {name: a, instruction: Three.}\n")
        server.process.send_signal(signal.SIGHUP)
        log = wait_for_log(server, "agents not reloaded: the old ones stay")
        assert "did you mean instructions?" in log
        assert instructions(server) == "Two."


def check(*arguments):
    return subprocess.run(
        [BINARY, "check", *arguments], cwd=ROOT, text=True, capture_output=True, timeout=HANG_GUARD)


def test_parley_check_says_whether_a_server_would_start(files, tmp_path):
    good = check("--agents", str(files / "agents.yaml"), "--default-agent", "desk")
    assert good.returncode == 0 and "the agents are booth, desk, quiet" in good.stdout, good
    bad = tmp_path / "bad.yaml"
    bad.write_text("- {name: a, tools: [calendar]}\n")
    for arguments, word in [
        (["--agents", str(bad)], "calendar"),
        (["--agents", str(files / "agents.yaml"), "--default-agent", "nobody"], "nobody"),
        (["--host", "0.0.0.0"], "api-key"),
        (["--api-keys-file", str(tmp_path / "none")], "api-keys-file"),
        (["--tls-cert", str(bad), "--tls-key", str(bad)], "bad.yaml"),
        (["--prot", "1"], "did you mean port"),
    ]:
        result = check(*arguments)
        assert result.returncode != 0 and word in result.stderr, (arguments, result)
        assert len(result.stderr.strip().splitlines()) <= 2, result.stderr


def test_the_examples_run(monkeypatch):
    """The receptionist says its greeting, and has found its calendar."""
    monkeypatch.setenv("PATH", f"{ROOT}/.venv-tests/bin:{os.environ['PATH']}")
    folder = ROOT / "examples/agents"
    options = ["--agents", str(folder / "agents.yaml"), "--mcp-config", str(folder / "mcp.json")]
    assert "order-taker, receptionist" in check(*options).stdout
    with ParleyServer(*options, "--default-agent", "receptionist") as server, \
            connect(server.realtime_url, **PATIENT_WEBSOCKET) as connection:
        created = until(connection, "session.created")["session"]
        assert created["instructions"].startswith("You are the receptionist")
        seen = {}
        while seen.keys() != {"tools", "said"}:
            event = server_event(connection.recv(timeout=HANG_GUARD))
            assert event["type"] != "error", event
            if event["type"] == "conversation.item.done" and event["item"]["type"] == "mcp_list_tools":
                seen["tools"] = {tool["name"] for tool in event["item"]["tools"]}
            if event["type"] == "response.done":
                seen["said"] = said(event["response"])
        assert seen["tools"] == {"find_free_times", "book_appointment"}
        assert seen["said"] == ["Doctor Jones' practice, good morning. How can I help you?"]
