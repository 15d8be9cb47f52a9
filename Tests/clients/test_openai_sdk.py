"""The official openai SDK completes every kind of turn, and its own types accept every event."""

import pytest
from realtime_session import (
    CALL_SERIES, PCM, SPOKEN_SERIES, TEXT_SERIES, TOOL, append, check_deltas, connect, run, series,
    spoken,
)
from recordings import word_errors, words


def check_spoken_series(events):
    swapped = SPOKEN_SERIES.copy()
    swapped[4], swapped[5] = swapped[5], swapped[4]
    assert series(events) in (SPOKEN_SERIES, swapped)


def test_session_created_and_updated_carry_the_effective_session(parley):
    async def test():
        async with connect(parley, model="my-model") as session:
            created = session.events[0].session
            assert created.type == "realtime"
            assert created.model == "my-model"
            assert created.output_modalities == ["audio"]
            assert created.audio.input.format.type == "audio/pcm"
            assert created.audio.input.format.rate == 24000
            detection = created.audio.input.turn_detection
            assert detection.type == "server_vad"
            assert (detection.threshold, detection.prefix_padding_ms) == (0.5, 300)
            assert detection.silence_duration_ms == 500
            assert detection.create_response and detection.interrupt_response
            updated = await session.update(
                instructions="Be brief.", output_modalities=["text"], tools=[TOOL],
                audio={"input": {"turn_detection": None}, "output": {"voice": "cedar"}},
            )
            assert updated.instructions == "Be brief."
            assert updated.output_modalities == ["text"]
            assert updated.audio.input.turn_detection is None
            assert updated.audio.output.voice == "cedar"
            assert updated.tools[0].parameters == TOOL["parameters"]
            assert updated.model == "my-model"

    run(test())


def test_text_turn(parley):
    async def test():
        async with connect(parley) as session:
            await session.update(output_modalities=["text"])
            item = (await session.say("Hello there")).item
            assert item.content[0].text == "Hello there"
            events = await session.respond(metadata={"request": "one"})
            assert series(events) == TEXT_SERIES
            text = "".join(check_deltas(events, "response.output_text"))
            assert text.strip()
            created, done = events[0].response, events[-2].response
            assert created.status == "in_progress" and created.metadata == {"request": "one"}
            assert done.status == "completed" and done.metadata == {"request": "one"}
            assert done.output[0].content[0].text == text
            assert done.output[0].role == "assistant"

    run(test())


def test_spoken_reply_to_a_typed_message(parley):
    async def test():
        async with connect(parley) as session:
            await session.say("Hello there")
            events = await session.respond()
            check_spoken_series(events)
            text, audio = spoken(events)
            assert text.strip() and len(audio) > 2 * 24000 * 0.3
            assert events[-2].response.output[0].content[0].transcript == text

    run(test())


def test_audio_turn_under_server_vad(parley, speech):
    async def test():
        async with connect(parley) as session:
            await session.update(
                audio={
                    "input": {
                        "format": PCM, "transcription": {"model": "default"},
                        "turn_detection": {"type": "server_vad"},
                    }
                }
            )
            start = len(session.events)
            await append(session, speech)
            await session.until("rate_limits.updated")
            events = session.events[start:]
            completed = [e for e in events if e.type.endswith("transcription.completed")]
            if not completed:
                completed = [await session.until(
                    "conversation.item.input_audio_transcription.completed")]
            turn = [e for e in events if "transcription" not in e.type][:6]
            assert [event.type for event in turn] == [
                "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
                "input_audio_buffer.committed", "conversation.item.added",
                "conversation.item.done", "response.created",
            ]
            item_id = turn[0].item_id
            assert [turn[1].item_id, turn[2].item_id] == [item_id, item_id]
            assert [turn[3].item.id, turn[4].item.id] == [item_id, item_id]
            assert 0 <= turn[0].audio_start_ms < turn[1].audio_end_ms
            assert turn[3].item.content[0].type == "input_audio"
            assert completed[0].item_id == item_id
            heard = words(completed[0].transcript)
            assert word_errors(words("go forward ten meters"), heard) <= 1, heard
            response = events[events.index(turn[5]) :]
            check_spoken_series(response)
            text, audio = spoken(response)
            assert text.strip() and len(audio) > 2 * 24000 * 0.3
            assert response[-2].response.status == "completed"

    run(test())


def test_a_transcription_session_hears_and_never_answers(parley, speech):
    async def test():
        async with connect(parley, intent="transcription") as session:
            assert session.events[0].session.type == "transcription"
            transcription = {"model": "gpt-4o-transcribe", "language": "en"}
            await session.connection.session.update(session={
                "type": "transcription",
                "audio": {"input": {"format": PCM, "transcription": transcription,
                                    "turn_detection": {"type": "server_vad"}}},
            })
            updated = (await session.until("session.updated")).session
            assert updated.audio.input.transcription.model == "gpt-4o-transcribe"
            await append(session, speech)
            heard = await session.until("conversation.item.input_audio_transcription.completed")
            assert word_errors(words("go forward ten meters"), words(heard.transcript)) <= 1
            assert session.of("input_audio_buffer.committed")[0].item_id == heard.item_id
            await session.connection.response.create(event_id="mine")
            assert (await session.until("error")).error.event_id == "mine"
            assert not session.of("response.created")

    run(test())


def test_audio_turn_with_manual_commit(parley, speech):
    async def test():
        async with connect(parley) as session:
            await session.update(
                output_modalities=["text"],
                audio={"input": {"transcription": {"model": "default"}, "turn_detection": None}},
            )
            await append(session, bytes(48000))
            await session.connection.input_audio_buffer.clear()
            await session.until("input_audio_buffer.cleared")
            await append(session, speech, milliseconds=250)
            await session.connection.input_audio_buffer.commit()
            committed = await session.until("input_audio_buffer.committed")
            done = await session.until("conversation.item.done")
            assert done.item.id == committed.item_id
            events = await session.respond()
            assert "".join(check_deltas(events, "response.output_text")).strip()
            heard = session.of("conversation.item.input_audio_transcription.completed")
            if not heard:
                heard = [await session.until(
                    "conversation.item.input_audio_transcription.completed")]
            assert word_errors(words("go forward ten meters"), words(heard[0].transcript)) <= 1
            assert not session.of("input_audio_buffer.speech_started")

    run(test())


def test_function_call_turn(piped, model):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"], tools=[TOOL], tool_choice="auto")
            await session.say("What is the weather in Oslo?")
            events = await session.respond()
            assert series(events) == CALL_SERIES
            arguments = "".join(check_deltas(events, "response.function_call_arguments"))
            done = next(e for e in events if e.type == "response.function_call_arguments.done")
            assert (done.name, done.arguments) == ("get_weather", arguments)
            assert arguments == '{"city":"Oslo"}'
            sent = model.requests[-1]["body"]["tools"][0]["function"]
            assert sent["parameters"] == TOOL["parameters"]
            call = events[-2].response.output[0]
            assert (call.type, call.call_id) == ("function_call", done.call_id)
            await session.connection.conversation.item.create(
                item={"type": "function_call_output", "call_id": done.call_id, "output": "sunny"}
            )
            await session.until("conversation.item.done")
            events = await session.respond()
            assert "".join(check_deltas(events, "response.output_text")) == "The answer is sunny."
            usage = events[-2].response.usage
            assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (7, 5, 12)

    run(test())


def test_cancel(piped):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"])
            await session.say("Tell me a story")
            await session.connection.response.create()
            await session.until("response.output_text.delta")
            await session.connection.response.cancel()
            done = (await session.until("response.done")).response
            assert done.status == "cancelled"
            assert done.status_details.reason == "client_cancelled"
            assert done.output[0].status == "incomplete"
            await session.connection.response.cancel(event_id="again")
            error = await session.until("error", "response.output_text.delta")
            assert error.error.code == "response_cancel_not_active"
            assert error.error.event_id == "again"
            assert error.error.message.startswith("Cancellation failed")
            await session.say("Hello")
            events = await session.respond()
            assert "".join(check_deltas(events, "response.output_text")) == "You said: Hello"

    run(test())


def test_barge_in_cancels_the_reply(piped, speech):
    async def test():
        async with connect(piped) as session:
            await session.say("Tell me a story")
            await session.connection.response.create()
            created = await session.until("response.created")
            await session.until("response.output_audio.delta")
            await append(session, speech)
            await session.until("input_audio_buffer.speech_started")
            done = (await session.until("response.done")).response
            assert done.id == created.response.id
            assert done.status == "cancelled"
            assert done.status_details.reason == "turn_detected"
            place = len(session.events)
            await session.until("response.done")
            late = [e for e in session.events[place:] if getattr(e, "response_id", "") == done.id]
            assert late == []

    run(test())


def test_only_one_response_at_a_time(piped):
    async def test():
        async with connect(piped) as session:
            await session.update(output_modalities=["text"])
            await session.say("Tell me a story")
            await session.connection.response.create()
            await session.until("response.output_text.delta")
            await session.connection.response.create(event_id="second")
            error = await session.until("error", "response.done")
            assert error.error.code == "conversation_already_has_active_response"
            assert error.error.event_id == "second"

    run(test())


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
        ({"type": "response.cancel"}, "response_cancel_not_active"),
        ({"type": "conversation.item.retrieve", "item_id": "nobody"},
         "item_retrieve_invalid_item_id"),
        ({"type": "no.such.event"}, None),
        ({"type": "session.update", "session": {"type": "realtime", "max_output_tokens": 0}}, None),
        ({"type": "input_audio_buffer.append", "audio": "!"}, None),
        ({"type": "conversation.item.create", "item": {"type": "message", "role": "user"}}, None),
    ],
)
def test_a_wrong_event_is_an_error_and_the_session_continues(parley, event, code):
    async def test():
        async with connect(parley) as session:
            await session.connection.send({"event_id": "mine", **event})
            error = await session.until("error")
            assert error.error.event_id == "mine"
            assert error.error.message
            if code:
                assert error.error.code == code
            await session.update(output_modalities=["text"])
            await session.say("Still there?")
            assert series(await session.respond()) == TEXT_SERIES

    run(test())


def test_items_can_be_retrieved_deleted_and_not_doubled(parley):
    async def test():
        async with connect(parley) as session:
            items = session.connection.conversation.item
            item = {
                "id": "item_mine", "type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "one"}],
            }
            await items.create(item=item)
            await session.until("conversation.item.done")
            await items.create(item=item, event_id="twice")
            error = (await session.until("error")).error
            assert (error.code, error.event_id) == ("item_create_duplicate_item_id", "twice")
            await items.retrieve(item_id="item_mine")
            assert (await session.until("conversation.item.retrieved")).item.id == "item_mine"
            await items.delete(item_id="item_mine")
            assert (await session.until("conversation.item.deleted")).item_id == "item_mine"

    run(test())
