"""Turns through model providers: Anthropic's Messages, OpenAI's Responses, chat completions.

The providers are scripted. The official SDKs check that their answers are realistic, and that the
server's requests are what the real services accept."""

import asyncio
import collections.abc
import pathlib
import socket
import subprocess
import sys
import time

import anthropic
import openai
import pytest
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsStreaming,
)
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import (
    ResponseCreateParamsStreaming,
)
from parley_server import HANG_GUARD, ParleyServer, free_port
from pydantic import TypeAdapter
from realtime_session import check_deltas, connect, run
from scripted_providers import Messages, Responses, ScriptedProvider

KINDS = {
    "claude-x": ("/v1/messages", MessageCreateParamsStreaming),
    "gpt-x": ("/v1/responses", ResponseCreateParamsStreaming),
    "llama": ("/v1/chat/completions", CompletionCreateParamsStreaming),
}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
FUNCTIONS = [
    {"type": "function", "name": "get_weather", "description": "The weather of a city.",
     "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"type": "function", "name": "get_time"},
]

CONFIGURATION = """
providers:
  - name: claude
    kind: anthropic
    url: {main}
    models: [claude-*]
    key-env: CLAUDE_KEY
    vision: true
    fallback: spare
  - name: gpt
    kind: responses
    url: {main}
    models: gpt-*
    vision: true
  - name: spare
    url: {spare}
    model: spare-model
  - name: blind
    url: {main}
    models: blind
llm-url: {main}
llm-vision: true
service-retries: 0
llm-failures-before-pause: 1000
"""


@pytest.fixture(scope="module")
def provider():
    with ScriptedProvider() as server:
        yield server


@pytest.fixture(scope="module")
def spare():
    with ScriptedProvider() as server:
        yield server


@pytest.fixture(scope="module")
def routed(provider, spare, tmp_path_factory):
    """A server with several providers, selected by the models' names."""
    path = tmp_path_factory.mktemp("models") / "parley.yaml"
    path.write_text(CONFIGURATION.format(main=provider.url, spare=spare.url), encoding="utf-8")
    with ParleyServer("--config", str(path), CLAUDE_KEY="the-key") as server:
        yield server


@pytest.fixture(autouse=True)
def well(provider):
    provider.status, provider.silent = 200, False
    yield
    provider.status, provider.silent = 200, False


def forced(value):
    """Checks lazily typed parts, which the SDKs' types check only when they are read."""
    if isinstance(value, dict):
        return {key: forced(inner) for key, inner in value.items()}
    if isinstance(value, collections.abc.Iterable) and not isinstance(value, str):
        return [forced(inner) for inner in value]
    return value


def check_request(request, model):
    """Requires that the server's request is what the official SDK would send."""
    path, shape = KINDS[model]
    assert request["path"] == path
    body = request["body"]
    assert set(body) <= set(shape.__required_keys__ | shape.__optional_keys__)
    assert forced(TypeAdapter(shape).validate_python(body))
    return body


def text_of(events):
    return "".join(check_deltas(events, "response.output_text"))


# ---- The scripts are realistic


@pytest.mark.parametrize("text", ["hello", "weather"])
def test_anthropics_own_client_understands_the_script(provider, text):
    client = anthropic.Anthropic(api_key="k", base_url=provider.url.removesuffix("/v1"))
    question = {
        "model": "claude-x", "max_tokens": 9, "messages": [
            {"role": "user", "content": [{"type": "text", "text": text}]}],
        "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}],
    }
    with client.messages.stream(**question) as stream:
        message = stream.get_final_message()
    if text == "hello":
        assert message.content[0].text == "You said: hello"
    else:
        assert [block.input for block in message.content] == [{"city": "Oslo"}, {}]
    events = TypeAdapter(RawMessageStreamEvent)
    for event in Messages(question).events():
        if event["type"] != "ping":
            events.validate_python(event, strict=True)


@pytest.mark.parametrize("text", ["hello", "weather"])
def test_openais_own_client_understands_the_script(provider, text):
    client = openai.OpenAI(api_key="k", base_url=provider.url)
    question = {
        "model": "gpt-x", "input": [{"type": "message", "role": "user", "content": text}],
        "tools": [{"type": "function", "name": "get_weather", "parameters": {}, "strict": False}],
    }
    with client.responses.stream(**question) as stream:
        response = stream.get_final_response()
    if text == "hello":
        assert response.output_text == "You said: hello"
    else:
        assert [item.arguments for item in response.output] == ['{"city":"Oslo"}', "{}"]
    events = TypeAdapter(ResponseStreamEvent)
    for event in Responses(question).events():
        events.validate_python(event)


# ---- Turns


@pytest.mark.parametrize("model", KINDS)
def test_a_turn_is_answered_by_the_provider_of_its_model(routed, provider, model):
    async def test():
        async with connect(routed, model) as session:
            await session.update(output_modalities=["text"], instructions="Be brief.")
            await session.say("hello")
            events = await session.respond()
            assert text_of(events) == "You said: hello"
            done = session.of("response.done")[-1].response
            assert done.status == "completed"
            assert (done.usage.input_tokens, done.usage.output_tokens) == (16, 7)
            assert done.usage.input_token_details.cached_tokens == 4
        request = provider.requests[-1]
        body = check_request(request, model)
        assert body["model"] == model
        if model == "claude-x":
            assert request["headers"]["x-api-key"] == "the-key"
            assert body["system"][0]["cache_control"] == {"type": "ephemeral"}

    run(test())


@pytest.mark.parametrize("model", KINDS)
def test_functions_are_called_in_parallel_and_answered(routed, provider, model):
    async def test():
        async with connect(routed, model) as session:
            await session.update(
                output_modalities=["text"], tools=FUNCTIONS, parallel_tool_calls=True)
            await session.say("How is the weather?")
            await session.respond()
            check_request(provider.requests[-1], model)
            calls = session.of("response.function_call_arguments.done")
            assert [call.arguments for call in calls] == ['{"city":"Oslo"}', "{}"]
            for call, output in zip(calls, ["rain", "noon"]):
                await session.connection.conversation.item.create(item={
                    "type": "function_call_output", "call_id": call.call_id, "output": output})
                await session.until("conversation.item.done")
            assert text_of(await session.respond()) == "The answers are rain and noon."
        check_request(provider.requests[-1], model)

    run(test())


@pytest.mark.parametrize("model", KINDS)
def test_a_model_that_sees_is_shown_images(routed, provider, model):
    async def test():
        async with connect(routed, model) as session:
            await session.update(output_modalities=["text"])
            await session.connection.conversation.item.create(item={
                "type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": PIXEL, "detail": "low"},
                    {"type": "input_image", "image_url": "https://a.test/b.png"},
                ]})
            item = (await session.until("conversation.item.done")).item
            assert [part.type for part in item.content][1:] == ["input_image", "input_image"]
            assert text_of(await session.respond()) == "I see: image/png https://a.test/b.png"
        check_request(provider.requests[-1], model)

    run(test())


def test_a_model_that_sees_nothing_refuses_images_by_name(routed):
    async def test():
        async with connect(routed, "blind") as session:
            await session.connection.conversation.item.create(item={
                "type": "message", "role": "user", "content": [
                    {"type": "input_image", "image_url": PIXEL}]})
            error = (await session.until("error")).error
            assert error.code == "unsupported_content_type"
            assert error.param == "item.content[0].type"

    run(test())


# ---- Failures


def metric(server, name, **labels):
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return int(server.metric(f"{name}{{{text}}}"))


def test_another_provider_takes_over_before_the_first_word(routed, provider, spare):
    async def test():
        taken = metric(routed, "parley_model_fallbacks_total", provider="spare")
        async with connect(routed, "claude-x") as session:
            await session.update(output_modalities=["text"])
            provider.status = 529
            await session.say("hello")
            assert text_of(await session.respond()) == "You said: hello"
        assert spare.requests[-1]["body"]["model"] == "spare-model"
        assert metric(routed, "parley_model_fallbacks_total", provider="spare") == taken + 1
        turns = metric(routed, "parley_model_turns_total", provider="spare", outcome="completed")
        assert turns == taken + 1

    run(test())


@pytest.fixture
def impatient(provider, tmp_path):
    """The same server with a time limit on the first token, which also applies to the spare
    provider, and that provider. It is of this server alone: a request that has missed the limit may
    come to it later."""
    path = tmp_path / "parley.yaml"
    with ScriptedProvider() as spare:
        path.write_text(CONFIGURATION.format(main=provider.url, spare=spare.url), encoding="utf-8")
        with ParleyServer(
            "--config", str(path), "--llm-first-token-timeout-ms", "1000", CLAUDE_KEY="the-key"
        ) as server:
            yield server, spare


def test_another_provider_takes_over_from_one_that_never_says_a_word(impatient, provider):
    """The first provider cannot meet the limit. The spare one may miss it on a busy machine; then
    the response fails and is requested again. ModelRouterTests check the exact limit on a virtual
    clock."""
    server, spare = impatient

    async def test():
        provider.silent = True
        async with connect(server, "claude-x") as session:
            await session.update(output_modalities=["text"])
            await session.say("hello")
            done = None
            while done is None or done.status == "failed":
                await session.connection.response.create()
                done = (await session.until("response.done")).response
                await session.until("rate_limits.updated")
            assert done.output[0].content[0].text == "You said: hello"
        assert spare.requests[-1]["body"]["model"] == "spare-model"
        turns = metric(server, "parley_model_turns_total", provider="spare", outcome="completed")
        assert turns == 1

    run(test())


@pytest.mark.parametrize("model", KINDS)
def test_death_in_the_middle_fails_the_response_and_the_next_turn_works(routed, spare, model):
    async def test():
        asked = len(spare.requests)
        async with connect(routed, model) as session:
            await session.update(output_modalities=["text"])
            await session.say("please die")
            await session.connection.response.create()
            done = (await session.until("response.done")).response
            assert done.status == "failed"
            assert done.status_details.error.code in ("upstream_error", "upstream_malformed_reply")
            await session.until("rate_limits.updated")
            await session.say("again")
            assert text_of(await session.respond()) == "You said: again"
        # The client has received words already, so no other provider is asked.
        assert len(spare.requests) == asked

    run(test())


def test_a_name_that_no_provider_has_is_refused_where_there_is_no_other(provider):
    providers = f"name=a url={provider.url} models=known"

    async def test(server):
        async with connect(server, "unknown") as session:
            await session.update(output_modalities=["text"])
            await session.say("hello")
            await session.connection.response.create()
            done = (await session.until("response.done")).response
            assert done.status == "failed"
            assert done.status_details.error.code == "model_not_found"

    with ParleyServer("--providers", providers) as server:
        run(test(server))


def test_turns_of_many_sessions_share_their_connection(provider, figure):
    before = provider.connections

    async def test(server):
        for _ in range(10):
            async with connect(server) as session:
                await session.update(output_modalities=["text"])
                for text in ("one", "two"):
                    await session.say(text)
                    await session.respond()

    with ParleyServer("--llm", provider.url, "--shards", "1") as server:
        run(test(server))
    used = provider.connections - before
    figure(f"20 turns of 10 sessions: {used} connection(s) to the model server")
    assert used == 1


@pytest.fixture
def http2_url(tmp_path):
    """A model server that speaks HTTP/2, and the file of its certificate."""
    certificate, key, port = tmp_path / "cert.pem", tmp_path / "key.pem", free_port()
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", key, "-out", certificate,
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        ],
        check=True, capture_output=True,
    )
    command = [
        sys.executable, "-m", "hypercorn", "--certfile", certificate, "--keyfile", key,
        "--bind", f"127.0.0.1:{port}", "--keep-alive", str(HANG_GUARD), "http2_model:application",
    ]
    folder = pathlib.Path(__file__).parent
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + HANG_GUARD
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert server.poll() is None and time.monotonic() < deadline
                    time.sleep(0.05)
            yield f"https://localhost:{port}/v1", str(certificate)
        finally:
            server.terminate()


def test_turns_at_the_same_time_share_an_http2_connection(http2_url, figure):
    url, certificate = http2_url
    answers = []

    async def turns(server):
        async with connect(server) as session:
            await session.update(output_modalities=["text"])
            for text in ("one", "two"):
                await session.say(text)
                answers.append(text_of(await session.respond()))

    async def test(server):
        await asyncio.gather(*(turns(server) for _ in range(10)))

    with ParleyServer("--llm", url, "--service-ca", certificate, "--shards", "1") as server:
        run(test(server))
    figure(f"{len(answers)} turns, ten at a time: the last was answered over {answers[-1]}")
    assert answers == ["HTTP/2, 1 connection(s)"] * 20
