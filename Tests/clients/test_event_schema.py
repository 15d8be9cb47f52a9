"""The event checker, and the relay that applies it, detect planted defects."""

import asyncio
import json
import threading

import pytest
from event_schema import check_event, schema
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from recording_proxy import RecordingProxy
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

ITEM = {
    "id": "item_1", "object": "realtime.item", "type": "message", "role": "user",
    "status": "completed", "content": [{"type": "input_text", "text": "hello"}],
}
ADDED = {
    "event_id": "event_1", "type": "conversation.item.added", "previous_item_id": None,
    "item": ITEM,
}
DELTA = {
    "event_id": "event_2", "type": "response.output_audio.delta", "response_id": "resp_1",
    "item_id": "item_2", "output_index": 0, "content_index": 0, "delta": "AAAA",
}
DEFECTS = {
    "an unknown type": DELTA | {"type": "response.audio.delta"},
    "no type": {"event_id": "event_1"},
    "a missing field": {key: value for key, value in DELTA.items() if key != "content_index"},
    "an unknown field": DELTA | {"surprise": 1},
    "a float for an integer": DELTA | {"content_index": 0.0},
    "a boolean for an integer": DELTA | {"content_index": False},
    "a number for a string": DELTA | {"item_id": 7},
    "null where it is not allowed": DELTA | {"item_id": None},
    "null in an item": ADDED | {"item": ITEM | {"status": None}},
    "a wrong enum": ADDED | {"item": ITEM | {"status": "done"}},
    "no such item": ADDED | {"item": ITEM | {"role": "robot"}},
    "a wrong part": ADDED | {"item": ITEM | {"content": [{"type": "output_text", "text": "x"}]}},
    "an object for an array": ADDED | {"item": ITEM | {"content": {}}},
}


def test_right_events_pass():
    check_event(json.dumps(ADDED))
    check_event(json.dumps(DELTA | {"audio_start_ms": 5}))


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_a_violation(defect):
    assert len(schema().violations(json.dumps(DEFECTS[defect]))) == 1


def test_a_field_that_comes_twice_and_what_is_not_json_are_violations():
    text = json.dumps(DELTA)
    assert schema().violations(text[:-1] + ', "delta": ""}')
    assert schema().violations(text[:-1])


@pytest.mark.parametrize("compression", ["deflate", None])
@pytest.mark.parametrize("event", [DELTA, DEFECTS["a wrong enum"]])
def test_the_relay_tells_of_a_wrong_event_that_a_client_gets(event, compression):
    said = {"type": "response.create", "padding": "x" * 70000}

    async def speak(socket):
        assert json.loads(await socket.recv()) == said
        # If both sides compress, the second message refers to the first.
        for _ in range(2):
            await socket.send(json.dumps(event | {"delta": "A" * 200} if "delta" in event
                                         else event))
        await socket.wait_closed()

    async def run_server(ready):
        async with serve(speak, "127.0.0.1", 0, compression=compression, **PATIENT_WEBSOCKET) as server:
            ready.append(server.sockets[0].getsockname()[1])
            has_started.set()
            await is_over.wait()

    async def run_client(url):
        async with connect(url, compression=compression, **PATIENT_WEBSOCKET) as socket:
            await socket.send(json.dumps(said))
            return [json.loads(await socket.recv())["type"] for _ in range(2)]

    ports, has_started, is_over = [], threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[run_server(ports)])
    thread.start()
    assert has_started.wait(HANG_GUARD)
    proxy = RecordingProxy(ports[0])
    try:
        if event is DELTA:
            with proxy:
                types = asyncio.run(run_client(proxy.realtime_url))
        else:
            with pytest.raises(AssertionError, match="item.status: one of"), proxy:
                types = asyncio.run(run_client(proxy.realtime_url))
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(HANG_GUARD)
    assert types == [event["type"]] * 2
    assert [each["type"] for each in proxy.received] == types
    assert proxy.sent == [said]
    assert ("permessage-deflate" in proxy.answers[0].lower()) == (compression is not None)
