"""One caller: a conversation that speaks, types or calls tools, and that comes back with its handle when
its connection breaks (PROTOCOL.md, "Resume"). It knows nothing of faults.

Invariant: an event is handled once. One whose offset was seen in its epoch is dropped; one with a gap
before it is counted."""

import asyncio
import json
import random
import time

from account import Turn, words_of
from numbered_model import WORDS
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

RATE = 24_000
TAKEN_OVER = 4409
TOOL = {
    "type": "function", "name": "look_up", "description": "Looks a number up.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
}
# How long a turn may take before it counts as stuck, and a client tries to come back.
PATIENCE = 60
# After a return: time in which a reply that goes on by itself must have begun.
GRACE = 3
# How long two connections may need to settle which of them has the session.
FIGHT = 2.5


class Link:
    """One connection. `served_by` is the node that it reached; `queue` has its messages, and None once
    it is closed with `code`."""

    def __init__(self, socket):
        self.socket = socket
        self.served_by = socket.response.headers.get("X-Served-By", "?")
        self.code = None
        # When its first message came.
        self.began = None
        self.queue = asyncio.Queue()
        self.pump = asyncio.create_task(self.read())

    async def read(self):
        try:
            async for message in self.socket:
                self.began = self.began or time.monotonic()
                self.queue.put_nowait(message)
        except ConnectionClosed:
            pass
        self.code = self.socket.close_code or 1006
        self.queue.put_nowait(None)

    def abort(self):
        """Breaks the connection without a Close."""
        self.socket.transport.abort()


class Caller:
    """A conversation of a kind: `typed`, `tools`, `spoken` (typed question, spoken reply) or `speech`
    (both spoken). `utterance` is its speech, as samples."""

    def __init__(self, name, kind, url, key, account, utterance=b""):
        self.name, self.kind, self.url, self.account = name, kind, url, account
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.utterance = utterance
        self.is_spoken = kind in ("spoken", "speech")
        self.draw = random.Random(name)
        self.link = None
        self.session_id = None
        self.resume = None
        self.offset = 0
        # Items in their order: id → {"role", "type", "text", …}.
        self.items = {}
        self.active = set()
        # Items that were sent and may not have arrived: id → item.
        self.unknown = {}
        self.wants_response = False
        self.audio_end = {}
        self.turn = None
        self.turn_items = []
        # Responses to the turn and their items; others say the rest of an earlier reply.
        self.turn_responses, self.turn_replies = set(), set()
        # Items that the client has made and the server has shown: id → event.
        self.made = {}
        self.numbers = 0
        self.lost_at = None
        self.heard_since_loss = True
        self.fence = None
        self.settled_at = None
        self.is_over = False
        self.duel = None
        self.known = set()
        self.awaited_items = set()
        self.last_status = self.last_reason = None
        self.ended_at = self.loss = 0
        self.is_back = asyncio.Event()
        self.changed = asyncio.Event()

    # MARK: Connections

    async def dial(self, **query):
        """Opens a connection, with retries. None: it was not to be had for PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        url = self.url + "?model=m&resume=" + (query.get("handle") or "true")
        if query.get("handle"):
            url += f"&epoch={query['epoch']}&offset={query['offset']}"
        if query.get("item_id"):
            url += f"&item_id={query['item_id']}&audio_end_ms={query['audio_end_ms']}"
        wait = 0.05
        while time.monotonic() < deadline:
            try:
                return Link(await connect(
                    url, additional_headers=self.headers, max_size=None, compression=None,
                    open_timeout=5, ping_interval=None, close_timeout=2))
            except (OSError, InvalidHandshake, InvalidMessage, TimeoutError, EOFError) as refusal:
                self.account.notes[f"refused: {type(refusal).__name__}"] += 1
            await asyncio.sleep(wait * self.draw.uniform(0.5, 1))
            wait = min(1, wait * 2)
        return None

    def return_query(self):
        """What a return says: the last event, and the audio that the client keeps to play."""
        query = {
            "handle": self.resume["handle"], "epoch": self.resume["epoch"], "offset": self.offset,
        }
        if self.audio_end:
            item_id, end = list(self.audio_end.items())[-1]
            query |= {"item_id": item_id, "audio_end_ms": int(end)}
        return query

    async def run(self, until):
        """Holds turns until a time that `until` tells, then leaves."""
        self.link = await self.dial()
        if self.link is None:
            self.account.counts["never connected"] += 1
            return
        reader = asyncio.create_task(self.read())
        try:
            await self.converse(until)
        finally:
            self.is_over = True
            if self.link:
                await self.link.socket.close()
            reader.cancel()

    async def read(self):
        """Handles the messages of the connection and of each that follows it."""
        while not self.is_over:
            link = self.link
            message = await link.queue.get()
            if link is not self.link:
                continue
            if message is not None:
                self.handle(message)
                continue
            self.account.notes[f"closed with {link.code}"] += 1
            if self.duel:
                await self.duel.wait()
            if link is self.link and not self.is_over:
                await self.come_back()

    async def fight(self, count=2):
        """Comes back over several connections at once, beside the one that is open. One of them may
        have the session in the end."""
        if self.resume is None or self.lost_at is not None:
            return
        self.duel = asyncio.Event()
        self.note_loss()
        query = self.return_query()
        links = await asyncio.gather(*(self.dial(**query) for _ in range(count)))
        await asyncio.sleep(FIGHT)
        left = [link for link in links if link and link.code is None]
        codes = [link.code for link in [self.link, *links] if link and link.code is not None]
        self.account.counts["taken over"] += codes.count(TAKEN_OVER)
        if len(left) > 1 or self.link.code is None:
            self.account.counts["owned twice"] += 1
        for loser in [self.link, *left[:-1]]:
            loser.abort()
        if left:
            self.link = left[-1]
        self.duel.set()
        self.duel = None

    def note_loss(self, at=None):
        """The connection is lost, or known to be useless, from a time on."""
        if self.lost_at is None:
            self.lost_at = at or time.monotonic()
            self.account.counts["broken"] += 1
            # Only who has heard the beginning of a reply knows that it stops.
            self.heard_since_loss = not (self.turn and self.turn.is_heard)
            self.is_back.clear()
            if self.turn:
                self.turn.was_disturbed = True

    def note_survival(self):
        """The connection that was given up for lost has outlived the trouble."""
        self.account.notes["survived"] += 1
        self.lost_at = None
        self.heard_since_loss = True
        self.is_back.set()

    async def come_back(self):
        self.note_loss()
        if self.resume is None:
            self.lose_session()
            self.link = await self.dial()
        else:
            self.link = await self.dial(**self.return_query())
        if self.link is None:
            self.account.counts["never came back"] += 1
            self.account.counts["sessions lost"] += 1
            self.is_over = True
        self.changed.set()

    def lose_session(self):
        self.account.counts["sessions lost"] += 1
        self.session_id = None
        self.items, self.unknown, self.active = {}, {}, set()
        self.audio_end, self.offset = {}, 0
        self.made, self.known, self.awaited_items = {}, set(), set()
        self.turn_responses, self.turn_replies = set(), set()
        if self.turn:
            self.last_status = "session lost"

    # MARK: Events

    async def send(self, kind, **fields):
        self.numbers += 1
        event = {"type": kind, "event_id": f"{self.name}-{self.numbers}", **fields}
        try:
            await self.link.socket.send(json.dumps(event))
        except (ConnectionClosed, AttributeError):
            pass
        return event["event_id"]

    def handle(self, message):
        """A message has come."""
        if isinstance(message, bytes):
            self.handle_audio(message)
        else:
            event = json.loads(message)
            is_first = event["type"] == "session.created"
            if "offset" in event and not is_first and not self.take_offset(event):
                return
            method = getattr(self, "on_" + event["type"].replace(".", "_"), None)
            if method:
                method(event)
            if is_first:
                self.offset = event.get("offset", 0)
        self.changed.set()

    def take_offset(self, event):
        """Whether the event is new."""
        self.account.saw(self.session_id, self.resume["epoch"] if self.resume else 0, event)
        if event["offset"] <= self.offset:
            self.account.counts["events sent twice"] += 1
            return False
        if event["offset"] != self.offset + 1:
            self.account.counts["events missed"] += event["offset"] - self.offset - 1
        self.offset = event["offset"]
        return True

    def handle_audio(self, message):
        if message[0] != 1:
            return
        item_id = message[8:24].rstrip(b"\0").decode()
        start = int.from_bytes(message[4:8], "little") * 1000 / RATE
        end = start + (len(message) - 24) * 500 / RATE
        known = self.audio_end.pop(item_id, 0)
        if start > known + 1:
            self.account.counts["ms of audio left out"] += start - known
        elif start < known - 1:
            self.account.counts["ms of audio sent twice"] += min(end, known) - start
        if self.turn and item_id in self.turn_replies:
            self.turn.audio_ms += max(0, end - max(start, known))
        self.audio_end[item_id] = max(known, end)
        self.hear(item_id)

    def hear(self, item_id):
        """A piece of a reply has come."""
        if self.turn and item_id in self.turn_replies:
            self.turn.is_heard = True
        if not self.heard_since_loss and self.lost_at is None:
            self.heard_since_loss = True
            self.account.heard_again.append(time.monotonic() - self.loss)

    def on_session_created(self, event):
        if self.session_id is not None:
            # The handle is unknown: this is another session.
            self.lose_session()
        self.begin(event["session"]["id"], event.get("resume"))
        asyncio.ensure_future(self.configure())

    def begin(self, session_id, resume):
        """A connection has its session."""
        self.session_id, self.resume = session_id, resume
        if self.lost_at is not None:
            self.account.returns.append((self.link.began or time.monotonic()) - self.lost_at)
            self.loss, self.lost_at = self.lost_at, None
        self.is_back.set()

    async def configure(self):
        session = {
            "type": "realtime", "instructions": f"{self.name}. Be brief.",
            "output_modalities": ["audio" if self.is_spoken else "text"],
            "audio": {"output": {"transport": "binary"}},
        }
        if self.kind == "tools":
            session["tools"] = [TOOL]
        if self.kind == "speech":
            session["audio"]["input"] = {"turn_detection": {"type": "server_vad"}}
        await self.send("session.update", session=session)

    def on_parley_resumed(self, event):
        is_same = event["session"]["id"] == self.session_id
        if not is_same:
            self.lose_session()
        self.account.counts["recovered" if event["recovered"] else "restored"] += is_same
        self.begin(event["session"]["id"], event["resume"])
        if not event["recovered"]:
            # The conversation comes again, item by item.
            # An unfinished reply may be taken back, and said anew.
            whole = {item_id for item_id, item in self.items.items() if item["status"] == "completed"}
            self.awaited_items = whole if is_same else set()
            self.items, self.active, self.offset = {}, set(), 0
        if not is_same:
            asyncio.ensure_future(self.configure())
        asyncio.ensure_future(self.settle())

    def on_parley_resume_updated(self, event):
        self.resume = event["resume"]

    def on_parley_going_away(self, event):
        self.account.notes[f"warned: {event['reason']}"] += 1

    async def settle(self):
        """After a return: sends again what may not have arrived, and marks the end of what the server
        sends again. A known id is refused, so nothing is there twice."""
        for event in list(self.unknown.values()):
            await self.send("conversation.item.create", item=event)
        self.settled_at = None
        self.fence = await self.send("conversation.item.retrieve", item_id="item_fence")

    def on_error(self, event):
        error = event["error"]
        if self.fence and error.get("event_id") == self.fence:
            self.fence, self.settled_at = None, time.monotonic()
            self.audio_end = {
                item_id: end for item_id, end in self.audio_end.items() if item_id in self.items}
            missing = self.awaited_items - set(self.items) - set(self.unknown)
            self.account.counts["items lost"] += len(missing)
            self.awaited_items = set()
            for item_id in missing & set(self.made):
                asyncio.ensure_future(self.create(self.made[item_id]))
        else:
            self.account.notes[f"error: {error.get('code')}"] += 1

    def on_conversation_item_added(self, event):
        item = event["item"]
        if item["id"] in self.unknown:
            self.made[item["id"]] = self.unknown.pop(item["id"])
        self.items[item["id"]] = item | {"text": text_of(item)}
        is_heard = self.kind == "speech" and item.get("role") == "user"
        if is_heard and self.turn and item["id"] not in self.known:
            self.turn_items.append(item["id"])
        self.known.add(item["id"])

    def on_conversation_item_done(self, event):
        item = event["item"]
        self.items[item["id"]] = item | {"text": text_of(item)}

    def on_conversation_item_truncated(self, event):
        if event["item_id"] in self.items:
            # Without the words a client knows only that it has not heard all.
            self.items[event["item_id"]]["text"] = event.get("transcript", "")

    def on_conversation_item_deleted(self, event):
        self.items.pop(event["item_id"], None)
        self.audio_end.pop(event["item_id"], None)

    def on_response_created(self, event):
        self.active.add(event["response"]["id"])
        if any(item_id in self.items for item_id in self.turn_items):
            self.turn_responses.add(event["response"]["id"])
            self.wants_response = False

    def on_response_output_item_added(self, event):
        if event["response_id"] in self.turn_responses:
            self.turn_replies.add(event["item"]["id"])

    def on_response_done(self, event):
        response = event["response"]
        self.active.discard(response["id"])
        if response["id"] in self.turn_responses:
            self.take_outcome(response)
        for item in response["output"]:
            if item["type"] == "function_call":
                asyncio.ensure_future(self.answer_call(item))

    def take_outcome(self, response):
        """A response to the turn is over."""
        details = response.get("status_details") or {}
        self.last_status = response["status"]
        error = details.get("error") or {}
        self.last_reason = details.get("reason") or error.get("message") or error.get("code")
        self.ended_at = time.monotonic()
        if self.last_reason == "handed_over":
            # The rest follows after the return that is to come.
            self.settled_at = None

    def take_text(self, event):
        if event["item_id"] in self.items:
            self.items[event["item_id"]]["text"] += event["delta"]
        if not self.is_spoken:
            self.hear(event["item_id"])

    on_response_output_text_delta = take_text
    on_response_output_audio_transcript_delta = take_text

    # MARK: Turns

    async def create(self, item):
        """Adds an item; it is sent again after a return if its arrival is not known."""
        self.unknown[item["id"]] = item
        await self.send("conversation.item.create", item=item)

    async def ask_response(self):
        self.wants_response = True
        await self.send("response.create")

    async def answer_call(self, call):
        """Answers a call once, also if it is shown again after a return."""
        item_id = f"item_{call['call_id'][-20:]}"[:32]
        if item_id in self.items or item_id in self.unknown:
            return
        output = {"type": "function_call_output", "id": item_id, "call_id": call["call_id"],
                  "output": '{"found": "seven"}'}
        await self.create(output)
        await self.ask_response()

    async def converse(self, until):
        await asyncio.wait_for(self.is_back.wait(), PATIENCE)
        await asyncio.sleep(self.draw.uniform(0, 6))
        number = 0
        while time.monotonic() < until() and not self.is_over:
            number += 1
            await self.is_back.wait()
            await self.listen()
            await self.hold_turn(number)
            await asyncio.sleep(self.draw.uniform(2, 5))

    async def listen(self):
        """Waits for the end of a reply that goes on by itself after a return."""
        deadline = time.monotonic() + PATIENCE
        while self.active and not self.is_over and time.monotonic() < deadline:
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), 0.5)
            except TimeoutError:
                pass

    async def hold_turn(self, number):
        turn = Turn(self.kind, time.monotonic())
        self.last_status = self.last_reason = None
        self.turn, self.turn_items = turn, []
        self.turn_responses, self.turn_replies = set(), set()
        self.settled_at = None
        # Of the reply before there was nothing left to hear.
        self.heard_since_loss = True
        if self.kind == "speech":
            await self.speak()
        else:
            text = "Please call the tool." if self.kind == "tools" else "Say the words."
            item_id = f"item_{self.name}_{number}"
            self.turn_items.append(item_id)
            await self.create({
                "type": "message", "id": item_id, "role": "user",
                "content": [{"type": "input_text", "text": text}]})
            await self.ask_response()
        await self.finish(turn)
        turn.words = self.spoken_words()
        self.account.turns.append(turn)
        self.turn = None
        if turn.status != "completed":
            self.account.notes[f"turn {turn.status}: {self.last_reason}"] += 1

    async def speak(self):
        """Streams the utterance as it is spoken, 100 ms at a time."""
        size = RATE // 10 * 2
        start = time.monotonic()
        for index in range(0, len(self.utterance), size):
            try:
                await self.link.socket.send(self.utterance[index : index + size])
            except (ConnectionClosed, AttributeError):
                return
            await asyncio.sleep(max(0, start + (index + size) / size / 10 - time.monotonic()))

    def answers(self):
        """The items that answer the turn: all behind its own."""
        ids = list(self.items)
        places = [ids.index(each) for each in self.turn_items if each in self.items]
        return [self.items[each] for each in ids[min(places) + 1 :]] if places else []

    def spoken_words(self):
        return [
            word for item in self.answers() if item.get("role") == "assistant"
            for word in words_of(item["text"])]

    def is_final(self):
        """Whether the turn has had its reply."""
        if self.last_status == "session lost":
            return True
        if self.active or self.last_status is None or self.lost_at is not None:
            return False
        if self.last_reason in ("handed_over", "interrupted_by_restart") and self.lost_at is None:
            # The rest of the reply follows after the return.
            return self.settled_at is not None and time.monotonic() > self.ended_at + GRACE
        calls = [each for each in self.answers() if each["type"] == "function_call"]
        return not (self.kind == "tools" and calls and not self.spoken_words()
                    and self.last_status == "completed")

    async def finish(self, turn):
        """Waits for the end of a turn, and after a return does what a client then has to do."""
        deadline = time.monotonic() + PATIENCE
        while not self.is_over:
            if self.is_final():
                turn.status = self.last_status
                return
            if time.monotonic() > deadline:
                turn.status = "stuck"
                return
            if self.settled_at and not self.active:
                if await self.go_on(turn):
                    return
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), 0.5)
            except TimeoutError:
                pass

    async def go_on(self, turn):
        """The session is back and no reply is in progress. Returns whether the turn is over."""
        answer = [each for each in self.answers() if each.get("role") == "assistant"]
        calls = [each for each in self.answers() if each["type"] == "function_call"]
        if answer:
            if time.monotonic() < self.settled_at + GRACE:
                return False
            # Its end was lost with the connection; the items say how far the reply came.
            is_whole = answer[-1].get("status") == "completed" and not turn_missing(self)
            turn.status = "completed" if is_whole else "cut short"
            return True
        if calls and not any(each["type"] == "function_call_output" for each in self.answers()):
            await self.answer_call(calls[-1])
        elif self.kind == "speech" and not self.turn_items:
            self.account.counts["utterances said again"] += 1
            self.settled_at = None
            await self.speak()
        elif time.monotonic() > self.settled_at + (GRACE if not self.wants_response else 0.2):
            self.account.counts["replies asked for again"] += 1
            self.settled_at = time.monotonic() + GRACE
            await self.ask_response()
        return False


def turn_missing(caller):
    return set(WORDS) - set(caller.spoken_words())


def text_of(item):
    """The text of a message."""
    parts = item.get("content") or []
    return "".join(part.get("text") or part.get("transcript") or "" for part in parts)
