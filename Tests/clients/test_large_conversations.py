"""A conversation of 10,000 items is created, read, changed, sent to a model and deleted, beside
another session. The cost of an item grows only a little with the size of its conversation."""

import asyncio
import json
import time

import websockets.asyncio.client
import pytest
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from test_admission import cpu_seconds
from test_memory import metric

pytestmark = pytest.mark.busy

ITEMS = 10_000
# Events in flight at once: fewer than a client that does not read may leave unread.
WINDOW = 500


class Conversation:
    """A session of raw events."""

    def __init__(self, connection):
        self.connection = connection
        self.deleted = 0

    async def all(self, events, kind):
        """Sends events, waits for the same number of answers of a kind, and returns those."""
        answers, sent = [], 0
        while len(answers) < len(events):
            while sent < len(events) and sent - len(answers) < WINDOW:
                await self.connection.send(json.dumps(events[sent]))
                sent += 1
            event = json.loads(await asyncio.wait_for(self.connection.recv(), HANG_GUARD))
            self.deleted += event["type"] == "conversation.item.deleted" != kind
            assert event["type"] != "error" or kind == "error", event
            if event["type"] == kind:
                answers.append(event)
        return answers

    async def one(self, kind, **event):
        return (await self.all([event], kind))[0]


def item(number, text="hello"):
    return {"type": "message", "id": f"item_{number}", "role": "user",
            "content": [{"type": "input_text", "text": f"{text} {number}"}]}


def creation(number, **fields):
    return {"type": "conversation.item.create", "item": item(number), **fields}


def connect(server):
    return websockets.asyncio.client.connect(
        server.realtime_url + "?model=m", max_size=None, compression=None, **PATIENT_WEBSOCKET)


def options(*more):
    return (
        "--shards", "1", "--max-conversation-items", str(ITEMS), "--max-conversation-bytes",
        str(16 << 20), *more)


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


def test_ten_thousand_items_are_made_read_changed_and_deleted(figure):
    # Takes seconds of CPU, for twenty thousand events.
    async def test(server):
        async with connect(server) as first, connect(server) as second:
            large, beside = Conversation(first), Conversation(second)
            costs = []
            for start, end in [(0, 1_000), (1_000, 5_000), (5_000, ITEMS - 2)]:
                begun = cpu_seconds(server.process.pid)
                await large.all(
                    [creation(number) for number in range(start, end)],
                    "conversation.item.done")
                used = cpu_seconds(server.process.pid) - begun
                costs.append(f"{1e6 * used / (end - start):.0f} µs to {end}")
                await beside.one("session.updated", type="session.update",
                                 session={"type": "realtime"})
            figure("an item of a conversation costs " + ", ".join(costs))
            first_item = await large.one(
                "conversation.item.done", **creation(-1, previous_item_id="root"))
            assert first_item["previous_item_id"] is None
            middle = await large.one(
                "conversation.item.done", **creation(-2, previous_item_id="item_4000"))
            assert middle["previous_item_id"] == "item_4000"
            # The conversation is full: the oldest item is dropped.
            assert large.deleted == 0
            await large.one("conversation.item.done", **creation(ITEMS))
            assert large.deleted == 1
            await large.all(
                [{"type": "conversation.item.retrieve", "item_id": f"item_{number}"}
                 for number in range(0, ITEMS - 2, 10)], "conversation.item.retrieved")
            # An existing id, an unknown id, and an item without audio.
            wrong = [
                creation(5), creation("new", previous_item_id="none"),
                {"type": "conversation.item.delete", "item_id": "none"},
                {"type": "conversation.item.truncate", "item_id": "item_5", "content_index": 0,
                 "audio_end_ms": 1},
            ]
            for event in wrong:
                error = (await large.one("error", **event))["error"]
                assert error["type"] == "invalid_request_error"
            begun = cpu_seconds(server.process.pid)
            done = await large.one("response.done", type="response.create",
                                   response={"output_modalities": ["text"]})
            assert done["response"]["status"] == "completed"
            figure(f"a response after {ITEMS} items: "
                   f"{cpu_seconds(server.process.pid) - begun:.2f} s of CPU")
            held = metric(server, "parley_ledger_total_bytes")
            assert held > 50 * ITEMS
            await large.all(
                [{"type": "conversation.item.delete", "item_id": f"item_{number}"}
                 for number in range(1, ITEMS - 2)], "conversation.item.deleted")
        deadline = time.monotonic() + HANG_GUARD
        while metric(server, "parley_ledger_total_bytes") > 4096:
            assert time.monotonic() < deadline, "bytes are left in the ledger"
            await asyncio.sleep(0.05)

    with ParleyServer(*options()) as server:
        run(test(server))


def test_a_model_is_shown_the_newest_of_ten_thousand_items(model):
    async def test(server):
        async with connect(server) as connection:
            large = Conversation(connection)
            await large.all([creation(number) for number in range(ITEMS - 2)],
                            "conversation.item.done")
            before = len(model.requests)
            done = await large.one("response.done", type="response.create",
                                   response={"output_modalities": ["text"]})
            assert done["response"]["status"] == "completed"
            (request,) = model.requests[before:]
            messages = request["body"]["messages"]
            shown = [message for message in messages if message["role"] == "user"]
            assert 10 < len(shown) < ITEMS // 2
            assert shown[-1]["content"] == f"hello {ITEMS - 3}"
            # Only items at the beginning are missing.
            first = int(shown[0]["content"].split()[1])
            assert len(shown) == ITEMS - 2 - first

    arguments = options("--llm", model.url, "--model-context-tokens", "8000")
    with ParleyServer(*arguments, PARLEY_LLM_KEY="the-key") as server:
        run(test(server))


def test_long_texts_push_out_the_oldest_and_one_too_long_is_refused():
    async def test(server):
        async with connect(server) as connection:
            large = Conversation(connection)
            event = creation(0)
            text = "x" * 50_000
            for number in range(100):
                event["item"] = item(number, text)
                await large.one("conversation.item.done", **event)
            assert 70 <= large.deleted < 90
            event["item"] = item("too long", "x" * 1_100_000)
            assert (await large.one("error", **event))["error"]["type"] == "invalid_request_error"
            await large.one("session.updated", type="session.update",
                            session={"type": "realtime"})

    with ParleyServer("--max-conversation-bytes", str(1 << 20)) as server:
        run(test(server))
