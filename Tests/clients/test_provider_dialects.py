"""What the servers of models mean, through the release binary: errors within a 200 stream, streams left
open after their terminal event, calls without arguments, and parameters that a server refuses. The line
of the log about each failure, and that equal failures do not fill it."""

import json

import pytest
from faulty_service import FaultyService, answer, then_silence
from parley_server import HANG_GUARD, ParleyServer
from realtime_session import connect, run

EVENTS = "text/event-stream"
FUNCTION = {"type": "function", "name": "get_time"}
WHY = "maximum context length is 4096 tokens"


def data(*events):
    """A stream of events; text is written as it is."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def chunk(delta, reason=None):
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def says(text):
    return data(chunk({"content": text}), chunk({}, "stop"), "[DONE]")


def calls(**fields):
    call = {"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "get_time"} | fields}
    return data(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), "[DONE]")


def left_open(body):
    """An answer whose connection stays open after its last event."""
    head = f"HTTP/1.1 200 X\r\nContent-Type: {EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return then_silence(head.encode() + b"%x\r\n" % len(body) + body + b"\r\n")


FINE = answer(says("Fine."), EVENTS)


def serving(model, *arguments):
    return ParleyServer(
        "--llm", model.url, "--service-retries", "0", "--shards", "1", *arguments)


def turns(server, *kinds, count=1, **response):
    """Turns of one session: its last response, and all its events."""
    seen = []

    async def test():
        async with connect(server) as session:
            await session.update(output_modalities=["text"], tools=[FUNCTION])
            for _ in range(count):
                await session.say("hello")
                await session.respond(**response)
            seen.extend([session.of("response.done")[-1].response, session.of(*kinds)])

    run(test())
    return seen


def text_of(response):
    return "".join(part.text for item in response.output for part in item.content)


def failures(server):
    """The lines of the log about failed services."""
    lines = server.log_path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "service failed" in line]


ERRORS = {
    "llama.cpp": f'error: {{"code":500,"message":"{WHY}"}}\n\n'.encode() + data("[DONE]"),
    "vLLM": data({"object": "error", "message": WHY, "code": 400}, "[DONE]"),
    "Venice": data({"error_type": "server_error", "error_message": WHY}),
    "OpenRouter": data({"error": {"code": 502, "message": WHY}} | chunk({}, "error")),
    "Bedrock": data({"modelStreamErrorException": {"message": WHY}}),
    "an event": f"event: error\ndata: {WHY}\n\n".encode(),
}


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_within_a_stream_is_a_failure_and_the_log_says_why(error):
    with FaultyService(answer(ERRORS[error], EVENTS)) as model, serving(model) as server:
        assert turns(server)[0].status == "failed"
        line, = failures(server)
        assert WHY in line and f"{model.url}/chat/completions" in line and "status=200" in line


@pytest.mark.parametrize("body", [*ERRORS.values(), data("[DONE]")])
def test_after_an_error_within_a_stream_the_fallback_answers(body):
    with FaultyService(answer(body, EVENTS)) as model, FaultyService(FINE) as spare:
        providers = f"name=spare url={spare.url}"
        with serving(model, "--providers", providers, "--llm-fallback", "spare") as server:
            assert text_of(turns(server)[0]) == "Fine."


def test_a_stream_is_over_at_its_terminal_event():
    """The service says nothing more; the turn does not wait for it. A silent service fails after 60 s:
    so many turns that waited would take longer than the hang guard."""
    with FaultyService(left_open(says("Fine."))) as model, serving(model) as server:
        response, _ = turns(server, count=HANG_GUARD // 60 + 1)
        assert response.status == "completed" and text_of(response) == "Fine."
        assert not failures(server)


def test_a_transcript_is_over_at_its_terminal_event():
    """The limit on the service's silence (PATIENT_LIMITS) is longer than the hang guard."""
    body = data({"type": "transcript.text.done", "text": "Good morning."})
    with FaultyService(left_open(body)) as ears:
        with ParleyServer("--stt-url", ears.url, "--stt-stream", "true") as server:
            async def test():
                kind = "conversation.item.input_audio_transcription.completed"
                async with connect(server) as session:
                    await session.update(output_modalities=["text"], audio={"input": {
                        "turn_detection": None, "transcription": {"model": "whisper-1"}}})
                    await session.connection.input_audio_buffer.append(audio="AAAA" * 16_000)
                    await session.connection.input_audio_buffer.commit()
                    assert (await session.until(kind)).transcript == "Good morning."

            run(test())


@pytest.mark.parametrize("fields, arguments", [
    ({"arguments": ""}, "{}"), ({}, "{}"), ({"arguments": None}, "{}"),
    ({"arguments": "null"}, "{}"), ({"arguments": {"zone": "CET"}}, '{"zone": "CET"}'),
])
def test_the_arguments_of_a_call_are_an_object(fields, arguments):
    with FaultyService(answer(calls(**fields), EVENTS)) as model, serving(model) as server:
        response, done = turns(server, "response.function_call_arguments.done")
        assert [event.arguments for event in done] == [arguments]
        assert response.output[0].arguments == arguments and response.status == "completed"


def test_arguments_that_are_no_object_fail_the_response():
    with FaultyService(answer(calls(arguments="[1]"), EVENTS)) as model, serving(model) as server:
        response, _ = turns(server)
        assert response.status == "failed" and response.output[0].status == "incomplete"


# ---- What is refused


def test_the_limit_of_tokens_is_sent_as_the_server_wants_it():
    """The official SDK's types know both names; the service here knows the new one alone."""
    refusal = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use "
                                    "'max_completion_tokens' instead.", "param": "max_tokens"}}
    with FaultyService(FINE) as model, serving(model) as server:
        model.answers.append(answer(json.dumps(refusal).encode(), status=400))
        assert text_of(turns(server, max_output_tokens=200)[0]) == "Fine."
        assert len(model.requests) == 2
        assert text_of(turns(server, max_output_tokens=200)[0]) == "Fine."
        assert len(model.requests) == 3
        log = server.log_path.read_text(encoding="utf-8")
        assert "service works, with a fault" in log and not failures(server)


def test_an_automatic_choice_of_tools_is_left_out_where_it_is_refused():
    refusal = {"error": {"message": "This model does not support this tool_choice"}}
    with FaultyService(FINE) as model, serving(model) as server:
        model.answers.append(answer(json.dumps(refusal).encode(), status=400))
        assert text_of(turns(server)[0]) == "Fine."
        assert text_of(turns(server)[0]) == "Fine."
        assert [b"tool_choice" in body for body in model.bodies] == [True, False, False]


def test_half_a_character_in_arguments_breaks_no_later_request():
    """vertesia/llumiverse#462: the services that get the call again refuse the request."""
    with FaultyService(FINE) as model, serving(model) as server:
        model.answers.append(answer(calls(arguments='{"zone":"\\ud83d"}'), EVENTS))
        _, done = turns(server, "response.function_call_arguments.done", count=2)
        assert [json.loads(event.arguments) for event in done] == [{"zone": "\ufffd"}]
        assert b"ud83d" not in model.bodies[-1] and b"ufffd" in model.bodies[-1]


# ---- What the operator is told


@pytest.mark.parametrize("reply, words", [
    (answer(b"<html>Log in first.</html>", "text/html"), ["a web page", "text/html", "Log in first."]),
    (answer(b"\x1f\x8b\x08\x00" + bytes(40), EVENTS, fields="Content-Encoding: gzip\r\n"),
     ["a compressed body", "compression"]),
    (answer(b"upstream timed out", "text/plain"), ["plain text", "upstream timed out"]),
    (answer(b'{"detail":"no"}', status=404), ["status=404", "llm-url"]),
    (answer(b"", status=307, fields="Location: https://other.test/v1/x?key=secret\r\n"),
     ["https://other.test/v1/x", "status=307", "llm-url"]),
    (answer(b"<h1>Bad Gateway</h1>", "text/html", status=502), ["status=502", "Bad Gateway"]),
])
def test_the_log_says_what_came_back_and_what_to_do(reply, words):
    with FaultyService(reply) as model, serving(model) as server:
        assert turns(server)[0].status == "failed"
        line, = failures(server)
        for word in [*words, "service=llm", f"url={model.url}/chat/completions", "advice="]:
            assert word in line, line
        assert "secret" not in line
        assert server.metric('parley_service_failures_total{service="llm"}') == "1"


@pytest.mark.parametrize("kind", ["chat", "anthropic"])
def test_a_key_that_the_service_repeats_is_not_logged(kind):
    key = "sk-4242-secret"
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {key}."}}).encode()
    with FaultyService(answer(body, status=401)) as model:
        with serving(model, "--llm-kind", kind, "--llm-key", key) as server:
            assert turns(server)[0].status == "failed"
            line, = failures(server)
            assert "Incorrect API key provided: ***." in line
            assert key not in server.log_path.read_text(encoding="utf-8")


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_of_the_same_origin_is_followed_and_the_log_names_its_target(status):
    with FaultyService(FINE) as model, serving(model) as server:
        target = "/v1/chat/completions/"
        model.answers.append(answer(b"", status=status, fields=f"Location: {target}\r\n"))
        assert text_of(turns(server)[0]) == "Fine."
        assert model.requests[-1].startswith(b"POST /v1/chat/completions/ ")
        log = server.log_path.read_text(encoding="utf-8")
        assert model.url.removesuffix("/v1") + target in log and not failures(server)


def test_equal_failures_do_not_fill_the_log():
    with FaultyService(answer(b'{"error":{"message":"down"}}', status=503)) as model:
        with serving(model) as server:
            turns(server, count=60)
            assert server.metric('parley_service_failures_total{service="llm"}') == "60"
            lines = server.log_path.read_text(encoding="utf-8").splitlines()
            assert len([line for line in lines if " warning " in line]) < 10
