"""The official openai SDK over plain HTTP: chat completions."""

import asyncio
import time

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from realtime_session import TOOL, run

CHAT_TOOL = {"type": "function", "function": {key: TOOL[key] for key in TOOL if key != "type"}}


@pytest.fixture
def completions(piped):
    """The chat completions of a server that uses the scripted model."""
    with OpenAI(api_key="any", base_url=piped.base_url, max_retries=0) as client:
        yield client.chat.completions


def user(text):
    return [{"role": "user", "content": text}]


def test_a_completion(completions, model):
    messages = [{"role": "system", "content": "Be brief."}, *user("hello")]
    begun = int(time.time())
    reply = completions.create(model="gpt-none-such", messages=messages, temperature=0.5)
    assert reply.object == "chat.completion" and reply.id
    assert begun <= reply.created <= time.time()
    choice = reply.choices[0]
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert (choice.message.role, choice.message.content) == ("assistant", "You said: hello")
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 5, 12)
    assert model.requests[-1]["body"]["messages"] == messages


def test_a_streamed_completion(completions):
    stream = completions.create(
        model="gpt-none-such", messages=user("hello"), stream=True,
        stream_options={"include_usage": True})
    chunks = list(stream)
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    pieces = [delta.content for delta in deltas if delta.content]
    # In pieces as the model sent them, not all at the end.
    assert pieces == ["You ", "said: ", "hello"]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 12


def test_the_first_words_come_while_the_model_still_writes(completions, model):
    model.second_half.clear()
    model.finished.clear()
    try:
        messages = [{"role": "system", "content": "Stop halfway."}, *user("hello")]
        with completions.create(model="any", messages=messages, stream=True) as stream:
            first = next(chunk for chunk in stream if chunk.choices[0].delta.content)
            assert first.choices[0].delta.content
            assert not model.finished.is_set()
            model.second_half.set()
            assert [chunk.choices[0].finish_reason for chunk in stream][-1] == "stop"
    finally:
        model.second_half.set()


@pytest.mark.parametrize("is_streamed", [False, True])
def test_function_calls_side_by_side(completions, model, is_streamed):
    messages = user("What is the weather in Oslo and Rome?")
    options = {"model": "any", "tools": [CHAT_TOOL]}
    if is_streamed:
        with completions.stream(messages=messages, **options) as stream:
            stream.until_done()
            choice = stream.get_final_completion().choices[0]
    else:
        choice = completions.create(messages=messages, **options).choices[0]
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    assert [call.function.name for call in calls] == ["get_weather"] * 2
    assert [call.function.arguments for call in calls] == ['{"city":"Oslo"}', '{"city":"Rome"}']
    assert model.requests[-1]["body"]["tools"][0]["function"]["parameters"] == TOOL["parameters"]
    answers = [
        {"role": "tool", "tool_call_id": call.id, "content": f"sunny {index}"}
        for index, call in enumerate(calls)
    ]
    asked = {"role": "assistant", "tool_calls": [call.to_dict() for call in calls]}
    reply = completions.create(messages=[*messages, asked, *answers], **options)
    assert reply.choices[0].message.content == "The answer is sunny 1."


def test_a_completion_that_meets_its_limit(completions, model):
    reply = completions.create(
        model="any", messages=user("Go to the limit"), max_completion_tokens=20)
    assert reply.choices[0].finish_reason == "length"
    assert reply.choices[0].message.content == "As far as "


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_reply_ends_in_front_of_a_stop_word(completions, is_streamed):
    # The model's pieces are "You ", "said: ", "hello".
    for stop, text in [("said", "You "), (["none", "d: hel"], "You sai"), ("bye", "You said: hello")]:
        reply = completions.create(
            model="any", messages=user("hello"), stop=stop, stream=is_streamed)
        choices = [chunk.choices[0] for chunk in reply] if is_streamed else reply.choices
        said = [choice.delta if is_streamed else choice.message for choice in choices]
        assert "".join(each.content or "" for each in said) == text
        assert choices[-1].finish_reason == "stop"


@pytest.mark.parametrize("fields", [{"n": 2}, {"seed": 7}, {"logprobs": True}])
def test_what_is_not_supported_is_said_in_the_words_of_openai(completions, fields):
    with pytest.raises(openai.BadRequestError, match="Unsupported parameter: ") as caught:
        completions.create(model="any", messages=user("hello"), **fields)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", *fields)


def test_an_empty_message_is_a_message(completions, model):
    assert completions.create(model="any", messages=user("")).choices[0].message.content
    assert model.requests[-1]["body"]["messages"] == user("")


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_models_are_listed_and_retrieved(piped, slashes):
    with OpenAI(api_key="any", base_url=piped.base_url + slashes, max_retries=0) as client:
        listed = client.models.list().data
        assert [client.models.retrieve(model.id) for model in listed] == listed
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("another/model")


def test_what_the_model_cannot_do_is_an_error(completions):
    with pytest.raises(openai.APIStatusError) as caught:
        completions.create(model="any", messages=user("please refuse"))
    assert caught.value.status_code >= 500
    assert "out of order" not in str(caught.value)
    with pytest.raises(openai.APIError):
        list(completions.create(model="any", messages=user("please die"), stream=True))
    assert completions.create(model="any", messages=user("hello")).choices


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": "hello"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "hello"}]}, "messages[0].role"),
        ({"messages": user("hello"), "max_tokens": 0}, "max_tokens"),
        ({"messages": [*user("hello"), {"role": "tool", "tool_call_id": "none", "content": "5"}]},
         "messages[1].tool_call_id"),
    ],
)
def test_a_wrong_request_is_refused_by_name(completions, body, param):
    with pytest.raises(openai.BadRequestError) as caught:
        completions.create(model="any", extra_body=body, messages=body["messages"])
    assert caught.value.param == param
    assert caught.value.body["message"]


def test_many_streams_at_once(piped):
    async def one(client, number):
        stream = await client.chat.completions.create(
            model="any", messages=user(f"stream {number}"), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def test():
        async with AsyncOpenAI(api_key="any", base_url=piped.base_url) as client:
            texts = await asyncio.gather(*(one(client, number) for number in range(20)))
        assert texts == [f"You said: stream {number}" for number in range(20)]

    run(test())
