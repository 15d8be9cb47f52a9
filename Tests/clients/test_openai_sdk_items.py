"""The official openai SDK arranges conversations: item positions, responses outside the
conversation, parallel calls, and the rest of a reply after truncation."""

import base64

from realtime_session import (
    CALL_SERIES, TOOL, append, check_deltas, connect, run, series, spoken,
)
from recordings import word_errors, words


def message(text, role="user", **fields):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **fields}


async def create(session, item, **fields):
    """Adds an item; returns the event with its position."""
    await session.connection.conversation.item.create(item=item, **fields)
    return await session.until("conversation.item.done")


async def retrieve(session, item_id):
    await session.connection.conversation.item.retrieve(item_id=item_id)
    return (await session.until("conversation.item.retrieved")).item


def test_items_stand_where_the_client_puts_them(piped, model):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"])
            await create(session, message("one", id="one"))
            last = await create(session, message("three", id="three"))
            assert last.previous_item_id == "one"
            between = message("two", role="assistant", id="two")
            assert (await create(session, between, previous_item_id="one")).item.id == "two"
            first = message("zero", role="system", id="zero")
            assert (await create(session, first, previous_item_id="root")).previous_item_id is None
            await session.respond()
            asked = model.requests[-1]["body"]["messages"]
            assert [(each["role"], each["content"]) for each in asked] == [
                ("system", "zero"), ("user", "one"), ("assistant", "two"), ("user", "three"),
            ]
            await session.connection.conversation.item.delete(item_id="two")
            await session.until("conversation.item.deleted")
            await create(session, message("four"))
            await session.respond()
            asked = model.requests[-1]["body"]["messages"]
            assert "two" not in [each["content"] for each in asked]

    run(test())


def test_an_item_after_one_that_does_not_exist_is_refused(parley):
    async def test():
        async with connect(parley) as session:
            await session.connection.conversation.item.create(
                item=message("lost"), previous_item_id="nobody", event_id="mine")
            error = (await session.until("error")).error
            assert error.code == "item_create_invalid_previous_item_id"
            assert (error.event_id, error.param) == ("mine", "previous_item_id")

    run(test())


def test_truncation_keeps_the_words_that_were_heard(piped):
    async def test():
        async with connect(piped) as session:
            await session.say("a sentence of ten words that can be cut in half")
            events = await session.respond()
            text, audio = spoken(events)
            item = events[-2].response.output[0]
            half = len(audio) // 96
            await session.connection.conversation.item.truncate(
                item_id=item.id, content_index=0, audio_end_ms=half)
            truncated = await session.until("conversation.item.truncated")
            assert (truncated.item_id, truncated.audio_end_ms) == (item.id, half)
            left = (await retrieve(session, item.id)).content[0].transcript
            assert text.startswith(left) and 0 < len(left) < len(text)
            await session.connection.conversation.item.truncate(
                item_id=item.id, content_index=0, audio_end_ms=10 * half, event_id="beyond")
            error = (await session.until("error")).error
            assert error.event_id == "beyond" and error.param == "audio_end_ms"

    run(test())


def test_a_response_beside_the_conversation(piped, model):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"])
            await session.say("Tell me a story")
            await session.connection.response.create()
            told = (await session.until("response.created")).response
            await session.connection.response.create(response={
                "conversation": "none", "metadata": {"topic": "aside"},
                "instructions": "Classify.", "input": [message("aside")],
            })
            aside = (await session.until("response.created")).response
            assert aside.metadata == {"topic": "aside"} and aside.conversation_id is None
            assert aside.id != told.id
            done = (await session.until("response.done")).response
            assert (done.id, done.status) == (aside.id, "completed")
            assert done.output[0].content[0].text == "You said: aside"
            asked = next(each["body"]["messages"] for each in reversed(model.requests)
                         if each["body"]["messages"][-1]["content"] == "aside")
            assert [each["content"] for each in asked] == ["Classify.", "aside"]
            await session.connection.response.cancel(response_id=told.id)
            assert (await session.until("response.done")).response.id == told.id
            await session.say("again")
            await session.respond()
            asked = model.requests[-1]["body"]["messages"]
            assert "aside" not in str(asked)

    run(test())


def test_a_response_has_settings_of_its_own(piped, model):
    async def test():
        async with connect(piped) as session:
            await session.update(instructions="Be brief.", tools=[TOOL])
            await session.say("What is the weather in Oslo?")
            events = await session.respond(
                instructions="Be long.", tool_choice="none", output_modalities=["text"],
                max_output_tokens=50, metadata={"number": "7"})
            assert check_deltas(events, "response.output_text")
            done = events[-2].response
            assert done.output_modalities == ["text"] and done.metadata == {"number": "7"}
            assert done.max_output_tokens == 50
            body = model.requests[-1]["body"]
            assert body["messages"][0]["content"] == "Be long."
            assert "tools" not in body or body.get("tool_choice") == "none"

    run(test())


def test_calls_side_by_side(piped):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"], tools=[TOOL])
            await session.say("What is the weather in Oslo and Rome and Cairo?")
            events = await session.respond()
            calls = events[-2].response.output
            assert [call.type for call in calls] == ["function_call"] * 3
            assert [call.arguments for call in calls] == [
                '{"city":"Oslo"}', '{"city":"Rome"}', '{"city":"Cairo"}']
            assert len({call.call_id for call in calls}) == 3
            for index, call in enumerate(calls):
                own = [event for event in events if index == getattr(event, "output_index", -1)]
                assert own[0].type == "response.output_item.added" and own[0].item.id == call.id
                assert "".join(check_deltas(own, "response.function_call_arguments")) \
                    == call.arguments
            for call in calls:
                await create(session, {
                    "type": "function_call_output", "call_id": call.call_id,
                    "output": call.arguments[9:-2],
                })
            events = await session.respond()
            assert "Cairo" in "".join(check_deltas(events, "response.output_text"))

    run(test())


def test_a_forced_call(piped, model):
    async def test():
        async with connect(piped) as session:
            choice = {"type": "function", "name": "get_weather"}
            await session.update(output_modalities=["text"], tools=[TOOL], tool_choice=choice)
            await session.say("What is the weather in Oslo?")
            assert series(await session.respond()) == CALL_SERIES
            assert model.requests[-1]["body"]["tool_choice"] == {
                "type": "function", "function": {"name": "get_weather"}}

    run(test())


def test_a_reply_that_meets_its_limit_is_incomplete(piped):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"], max_output_tokens=20)
            await session.say("Go to the limit")
            done = (await session.respond())[-2].response
            assert done.status == "incomplete"
            assert done.status_details.reason == "max_output_tokens"
            assert done.output[0].status == "incomplete"
            assert done.output[0].content[0].text == "As far as "

    run(test())


def test_a_retrieved_item_has_its_audio(parley, speech):
    async def say(session, audio):
        place = len(session.events)
        await append(session, audio, milliseconds=250)
        await session.connection.input_audio_buffer.commit()
        item = (await session.until("conversation.item.done")).item
        kind = "conversation.item.input_audio_transcription.completed"
        heard = [event for event in session.events[place:] if event.type == kind]
        heard = heard[0] if heard else await session.until(kind)
        assert word_errors(words("go forward ten meters"), words(heard.transcript)) <= 1
        return item

    async def test():
        async with connect(parley) as session:
            await session.update(
                audio={"input": {"transcription": {"model": "default"}, "turn_detection": None}})
            item = await say(session, speech)
            part = (await retrieve(session, item.id)).content[0]
            assert word_errors(words("go forward ten meters"), words(part.transcript)) <= 1
            audio = base64.b64decode(part.audio)
            # The silence around the speech may be omitted.
            assert 2 * 24000 < len(audio) <= len(speech) + 4800
            # The retrieved audio can be sent as speech again.
            await say(session, audio)

    run(test())
