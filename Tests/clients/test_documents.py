"""The documents at /openapi.json and /asyncapi.json: valid for public validators, and in agreement
with what the server sends, accepts and answers."""

import asyncio
import copy
import functools
import http.client
import json
import re
import subprocess
import warnings

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from openapi_spec_validator import validate as validate_openapi
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer
from websockets.asyncio.client import connect

with warnings.catch_warnings():
    # Two of its models have a field called `schema`, about which pydantic warns.
    warnings.simplefilter("ignore", UserWarning)
    from asyncapi3 import AsyncAPI3


def fetched(server, path):
    status, headers, body = server.get(path)
    assert status == 200 and headers["Content-Type"] == "application/json"
    return json.loads(body)


@pytest.fixture(scope="module")
def openapi(parley):
    return fetched(parley, "/openapi.json")


@pytest.fixture(scope="module")
def asyncapi(parley):
    return fetched(parley, "/asyncapi.json")


@pytest.fixture
def parley_with_key():
    with ParleyServer(PARLEY_API_KEY="the-key") as server:
        yield server


def references(node):
    """Every `$ref` below a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def resolve(document, reference):
    """The target of a reference within the document; KeyError if there is none."""
    assert reference.startswith("#/"), reference
    return functools.reduce(lambda node, key: node[key], reference[2:].split("/"), document)


def check_asyncapi(document):
    """Raises unless it is an AsyncAPI 3.0 document whose references all have targets."""
    AsyncAPI3.model_validate(document)
    for reference in references(document):
        resolve(document, reference)
    for schema in document["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)
        Draft202012Validator.check_schema(schema)


def closed(node):
    """The same schemas, with unknown fields forbidden in all objects."""
    if isinstance(node, list):
        return [closed(value) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        node["additionalProperties"] = False
    return node


class Judge:
    """Checks values against a document; `is_closed` forbids unknown fields."""

    def __init__(self, document, is_closed):
        schemas = document["components"]["schemas"]
        self.components = {"schemas": closed(schemas) if is_closed else schemas}

    def faults(self, value, key):
        schema = {
            "allOf": [{"$ref": f"#/components/schemas/{key}"}], "components": self.components,
        }
        return [error.message for error in Draft202012Validator(schema).iter_errors(value)]

    def event_faults(self, event):
        key = event["type"].replace(".", "_")
        if key not in self.components["schemas"]:
            return [f"{event['type']} is in no document"]
        return self.faults(event, key)


# MARK: the documents themselves


def test_openapi_passes_its_validator(openapi):
    validate_openapi(openapi)
    for reference in references(openapi):
        resolve(openapi, reference)


def test_asyncapi_passes_its_validator(asyncapi):
    check_asyncapi(asyncapi)
    receive = asyncapi["operations"]["receiveFromClient"]
    names = {resolve(asyncapi, resolve(asyncapi, each["$ref"])["$ref"])["name"]
             for each in receive["messages"]}
    assert {"session.update", "response.create", "binary_input_audio"} <= names


def test_planted_defects_are_found(openapi, asyncapi):
    bad = copy.deepcopy(openapi)
    bad["paths"]["/v1/realtime"]["get"]["parameters"][0]["in"] = "body"
    with pytest.raises(Exception, match="body"):
        validate_openapi(bad)
    bad = copy.deepcopy(openapi)
    bad["paths"]["/readyz"]["get"]["operationId"] = "get_healthz"
    with pytest.raises(Exception, match="get_healthz"):
        validate_openapi(bad)
    bad = copy.deepcopy(asyncapi)
    bad["channels"]["realtime"]["adress"] = bad["channels"]["realtime"].pop("address")
    with pytest.raises(Exception, match="adress"):
        check_asyncapi(bad)
    bad = copy.deepcopy(asyncapi)
    bad["operations"]["sendToClient"]["action"] = "publish"
    with pytest.raises(Exception, match="publish"):
        check_asyncapi(bad)
    bad = copy.deepcopy(asyncapi)
    del bad["components"]["schemas"]["ServerVAD"]
    with pytest.raises(KeyError, match="ServerVAD"):
        check_asyncapi(bad)


@pytest.mark.parametrize("name", ["openapi", "asyncapi"])
def test_the_command_prints_what_the_server_serves(name, request):
    done = subprocess.run([BINARY, name], capture_output=True, check=True, timeout=HANG_GUARD)
    printed, served = json.loads(done.stdout), dict(request.getfixturevalue(name))
    # They are served on different ports.
    printed.pop("servers"), served.pop("servers")
    assert printed == served


# MARK: what they say of HTTP


def test_every_documented_path_answers_as_documented(parley, openapi):
    tried = 0
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            if method not in ("get", "head") or "{" in path:
                continue
            connection = http.client.HTTPConnection("127.0.0.1", parley.port, timeout=HANG_GUARD)
            connection.request(method.upper(), path)
            response = connection.getresponse()
            body = response.read()
            answer = operation["responses"].get(str(response.status))
            assert answer, f"{method} {path}: {response.status}"
            if content := answer.get("content"):
                kind = response.headers["Content-Type"]
                assert any(kind.startswith(each) for each in content), f"{path}: {kind}"
                if "application/json" in content and "$ref" in json.dumps(content):
                    key = content["application/json"]["schema"]["$ref"].split("/")[-1]
                    assert Judge(openapi, True).faults(json.loads(body), key) == []
            connection.close()
            tried += 1
    assert tried > 15
    assert set(openapi["paths"]["/v1/realtime"]) == {"get"}
    assert parley.get("/no/such/path")[0] == 404


def test_a_session_is_shown_as_documented(parley, openapi):
    async def shown():
        async with connect(f"{parley.realtime_url}?model=shown", **PATIENT_WEBSOCKET) as socket:
            own = json.loads(await socket.recv())["session"]["id"]
            # Sessions of other tests may be about to end.
            assert own in [row["id"] for row in fetched(parley, "/admin/sessions?order=id")["data"]]
            return fetched(parley, f"/admin/sessions/{own}")

    detail = asyncio.run(shown())
    assert detail["model"] == "shown"
    assert Judge(openapi, True).faults(detail, "SessionDetail") == []
    assert sum(detail["parts"].values()) == detail["bytes"]


LIFETIME = {"anchor": "created_at", "seconds": 60}


@pytest.mark.parametrize(("path", "asked", "answered", "wanted", "wrong"), [
    ("client_secrets", "ClientSecretRequest", "ClientSecret",
     {"expires_after": LIFETIME, "session": {"type": "realtime", "instructions": "Be brief."}},
     {"expires_after": {"seconds": 1}}),
    ("sessions", "BetaSessionRequest", "BetaSessionSecret",
     {"client_secret": {"expires_after": LIFETIME}, "modalities": ["text"], "temperature": 0.7,
      "tool_choice": "f", "input_audio_transcription": {"model": "whisper-1"}},
     {"modalities": ["video"]}),
    ("transcription_sessions", "BetaTranscriptionRequest", "BetaTranscriptionSecret",
     {"client_secret": {"expires_at": LIFETIME}, "input_audio_format": "g711_ulaw"},
     {"input_audio_format": "mp3"}),
])
def test_client_secrets_are_as_documented(parley, openapi, path, asked, answered, wanted, wrong):
    judge = Judge(openapi, True)
    assert judge.faults(wanted, asked) == []
    for request, status in [(wanted, 200), (wrong, 400)]:
        connection = http.client.HTTPConnection("127.0.0.1", parley.port, timeout=HANG_GUARD)
        connection.request(
            "POST", f"/v1/realtime/{path}", json.dumps(request),
            {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = json.loads(response.read())
        assert response.status == status, body
        assert judge.faults(body, answered if status == 200 else "Failure") == []
        is_documented = judge.faults(request, asked) == []
        assert is_documented == (status == 200)


def test_credentials_are_in_the_documents_of_a_server_that_wants_them(parley_with_key):
    documents = [fetched(parley_with_key, f"/{name}.json") for name in ("openapi", "asyncapi")]
    validate_openapi(documents[0])
    check_asyncapi(documents[1])
    assert documents[0]["paths"]["/v1/models"]["get"]["security"] == [{"bearer": []}]
    assert "security" not in documents[0]["paths"]["/healthz"]["get"]
    assert len(documents[1]["servers"]["parley"]["security"]) == 2


# MARK: what they say of events

TOOL = {
    "type": "function", "name": "get_weather", "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def typed(text):
    return {
        "type": "conversation.item.create", "item": {
            "type": "message", "role": "user",
            "content": [{"type": "input_text", "text": text}],
        },
    }


async def conversation(server):
    """What a short session sends and receives: a reply in text, one in audio, errors, audio."""
    sent, received = [], []
    async with connect(f"{server.realtime_url}?model=demo", **PATIENT_WEBSOCKET) as socket:

        async def say(event, until):
            sent.append(event)
            await socket.send(json.dumps(event))
            while True:
                event = json.loads(await asyncio.wait_for(socket.recv(), HANG_GUARD))
                received.append(event)
                if event["type"] == until:
                    return event

        session = {
            "type": "realtime", "instructions": "Be brief.", "tools": [TOOL],
            "audio": {
                "input": {
                    "turn_detection": {"type": "semantic_vad", "eagerness": "low"},
                    "transcription": {"model": "any", "language": "en"},
                },
                "output": {"voice": "marin", "speed": 1.2, "format": {"type": "audio/pcmu"}},
            },
        }
        await say({"type": "session.update", "session": session}, "session.updated")
        await say(typed("Hello."), "conversation.item.done")
        text = {"output_modalities": ["text"], "metadata": {"topic": "x"}}
        await say({"type": "response.create", "response": text}, "rate_limits.updated")
        done = await say({"type": "response.create"}, "response.done")
        item = done["response"]["output"][0]["id"]
        cut = {"item_id": item, "content_index": 0, "audio_end_ms": 100}
        await say(
            {"type": "conversation.item.truncate", **cut}, "conversation.item.truncated")
        await say(
            {"type": "conversation.item.retrieve", "item_id": item},
            "conversation.item.retrieved")
        await say(
            {"type": "conversation.item.delete", "item_id": item}, "conversation.item.deleted")
        sent.append({"type": "input_audio_buffer.append", "audio": "AAAA" * 800})
        await socket.send(json.dumps(sent[-1]))
        await say({"type": "input_audio_buffer.clear"}, "input_audio_buffer.cleared")
        await say({"type": "response.cancel", "event_id": "mine"}, "error")
    return sent, received


def test_a_sessions_events_are_as_documented(parley, asyncapi):
    sent, received = asyncio.run(conversation(parley))
    judge = Judge(asyncapi, True)
    for event in sent + received:
        assert judge.event_faults(event) == [], event
    assert len({event["type"] for event in received}) >= 18
    # Checks the judge itself: each of these has one defect.
    created = next(event for event in received if event["type"] == "response.created")
    for change in [{"type": "response.borne"}, {"event_id": 5}, {"response": {}}, {"more": 1}]:
        assert judge.event_faults(created | change), change
    without = {key: value for key, value in created.items() if key != "event_id"}
    assert judge.event_faults(without)


def test_the_server_and_the_document_refuse_alike(parley, asyncapi):
    """Sends events that differ from valid ones in one step: the server refuses what the document
    forbids."""
    judge = Judge(asyncapi, False)
    detection = {"type": "server_vad", "threshold": 0.5, "idle_timeout_ms": 6000}
    session = {"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    events = [
        {"type": "session.update", "session": session},
        {"type": "session.update", "session": session | {"max_output_tokens": 4096}},
        {"type": "session.update", "session": session | {"max_output_tokens": 4097}},
        {"type": "session.update", "session": session | {"tool_choice": "auto"}},
        {"type": "session.update", "session": session | {"tool_choice": "maybe"}},
        {"type": "session.update", "session": session | {"instructions": 5}},
        {"type": "session.update", "session": session | {"output_modalities": ["audio", "text"]}},
        {"type": "session.update", "session": 5},
        {"type": "session.update"},
    ]
    for change in [{"threshold": 1.5}, {"threshold": "0.5"}, {"idle_timeout_ms": 4999},
                   {"idle_timeout_ms": None}, {"type": "none"}, {"create_response": "yes"}]:
        audio = {"input": {"turn_detection": detection | change}}
        events.append({"type": "session.update", "session": session | {"audio": audio}})

    async def verdicts():
        async with connect(parley.realtime_url, **PATIENT_WEBSOCKET) as socket:
            json.loads(await socket.recv())
            for event in events:
                await socket.send(json.dumps(event))
                answer = json.loads(await asyncio.wait_for(socket.recv(), HANG_GUARD))
                yield event, answer["type"] != "error"

    async def compare():
        agreed = {True: 0, False: 0}
        async for event, is_taken in verdicts():
            assert is_taken == (judge.event_faults(event) == []), event
            agreed[is_taken] += 1
        return agreed

    agreed = asyncio.run(compare())
    assert agreed[True] >= 4 and agreed[False] >= 9, agreed


def test_the_examples_of_the_documentation_are_as_documented(asyncapi):
    judge = Judge(asyncapi, True)
    found = 0
    for name in ("README.md", "PROTOCOL.md", "docs/http.md"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            for text in re.findall(r"\{.*\}", line):
                try:
                    event = json.loads(text)
                except ValueError:
                    continue
                if isinstance(event.get("type"), str) and "." in event["type"]:
                    assert judge.event_faults(event) == [], text
                    found += 1
    assert found > 0
