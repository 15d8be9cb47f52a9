"""Runs a conversation of Tests/Fixtures/conversations in real time: one client on a socket. Records
its events, each with the time since the start of the first audio packet.

The client or the server may be late. Packets and actions nevertheless keep the file's order, no
sound loses its beginning, and the conversation lasts until every expected event has been seen."""

import array
import asyncio
import base64
import collections
import json
import re
import time

import microphone as sounds
import websockets
import yaml
from event_schema import server_event
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET

# The recogniser determines their wording and the number of deltas.
UNTIMED = {"conversation.item.input_audio_transcription.delta"}
FOLDER = sounds.FIXTURES / "conversations"
# The same list as in Tests/ConversationTests/SeenEvent.swift.
IGNORED = {
    "session.created", "session.updated", "rate_limits.updated", "conversation.item.added",
    "conversation.item.done", "response.output_item.added", "response.output_item.done",
    "response.content_part.added", "response.content_part.done", "response.output_audio.done",
    "response.output_text.delta", "response.output_audio_transcript.delta",
    "response.output_audio_transcript.done", "response.function_call_arguments.delta",
}
SCALARS = ["audio_start_ms", "audio_end_ms", "name", "arguments", "transcript", "text"]


def names():
    """Names of all conversations."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


class Conversation:
    """One file, and one run of it."""

    def __init__(self, name):
        self.name = name
        script = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        self.script = script
        self.server_options = script.get("server") or {}
        self.model = script.get("model") or []
        self.expected = script.get("expect") or []
        self.until = script["until"]
        # Why it is not run in real time, or None.
        self.virtual_only = script.get("virtual_only")
        player = script.get("player") or {}
        self.stops_at_speech = player.get("stops_at_speech", True)
        self.acknowledges_every = player.get("acknowledges_every")
        self.actions = [
            {"sound": sounds.sound(entry), **entry} for entry in script.get("client") or []
        ]
        self.microphone = sounds.Microphone(script.get("microphone") or {})
        self.loudspeaker = sounds.Loudspeaker(player.get("latency_ms", 0))
        # The next actions of the client, with their times.
        self.due = [(action["at"], action) for action in self.actions if "at" in action]
        self.is_over = asyncio.Event()
        self.has_heard_reply = asyncio.Event()
        self.lags = []
        self.seen = []
        self.aliases = {}
        self.audio_lines = {}
        self.counts = {}
        self.user_item = None
        self.origin = None
        self.socket = None

    def now(self):
        """Milliseconds since the conversation began."""
        return (time.monotonic() - self.origin) * 1000

    async def run(self, url):
        """Runs the whole conversation."""
        session = {"type": "realtime", **(self.script.get("session") or {})}
        session["instructions"] = f"conversation: {self.name}"
        options = {"max_size": None, "compression": None, **PATIENT_WEBSOCKET}
        async with websockets.connect(url, **options) as self.socket:
            await self.send({"type": "session.update", "session": session})
            while server_event(await self.socket.recv())["type"] != "session.updated":
                pass
            self.origin = time.monotonic()
            tasks = [
                asyncio.create_task(part())
                for part in (self.listen, self.play, self.measure_lag, self.acknowledge)
            ]
            ending = asyncio.create_task(asyncio.wait_for(self.is_over.wait(), HANG_GUARD))
            await asyncio.wait([ending, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in [ending, *tasks]:
                task.cancel()
            done = await asyncio.gather(ending, *tasks, return_exceptions=True)
        for failure in done:
            # The judge reports what is missing after that time.
            if isinstance(failure, Exception) and not isinstance(failure, TimeoutError):
                raise failure

    def check_end(self):
        """Whether it is over: every expected event has been seen and its last time has passed. If
        the file expects nothing, whether the client has sent everything."""
        last = self.expected[-1]["at"] if self.expected else self.until
        if self.has_seen_enough() and self.now() >= last and (
            self.expected or self.microphone.position >= self.until
        ):
            self.is_over.set()

    def has_seen_enough(self):
        """Whether each event has come as often as the file expects."""
        def count(lines):
            return collections.Counter(
                kind for line in lines
                if (kind := line.get("event", "asked")) not in UNTIMED
            )
        return count(self.seen) >= count(self.expected)

    async def measure_lag(self):
        """Records ping times for the figures: how late server and client are."""
        while True:
            before = self.now()
            await (await self.socket.ping())
            self.lags.append(self.now() - before)
            await asyncio.sleep(0.05)

    async def send(self, event):
        await self.socket.send(json.dumps(event))

    async def wait_until(self, milliseconds):
        await asyncio.sleep(max(0, milliseconds - self.now()) / 1000)

    # The client

    async def play(self):
        """Sends packets and performs the timeline's actions, in the order of their times. A packet
        is due when its last sample has been spoken; an action for the same time follows it."""
        while True:
            packet_due = self.microphone.position + self.microphone.packet_ms
            self.due.sort(key=lambda entry: entry[0])
            if self.due and self.due[0][0] < packet_due:
                # An action that waited for an event may have become due in the past.
                await self.wait_until(self.due[0][0])
                at, action = self.due.pop(0)
                await self.act(action, at)
            else:
                await self.wait_until(packet_due)
                self.lags.append(self.now() - packet_due)
                await self.speak()
            self.check_end()

    async def act(self, action, at):
        if action["sound"] is not None:
            action["done_at"] = self.microphone.place(action["sound"], at)
        else:
            await self.send(self.filled(action["send"]))

    def filled(self, value):
        """An event with its `$` names replaced by their values."""
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        variables = {
            "$reply": self.loudspeaker.item_id, "$heard_ms": self.loudspeaker.heard(self.now()),
            "$user": self.user_item,
        }
        return variables.get(value, value) if isinstance(value, str) else value

    async def speak(self):
        """Sends the next packet."""
        step, echo = self.microphone.packet_ms, self.microphone.echo
        if echo:
            start = self.microphone.position - echo["delay_ms"]
            factor = 10 ** (echo["gain_db"] / 20)
            heard = self.loudspeaker.played(start, start + step)
            self.microphone.place([s * factor for s in heard], self.microphone.position)
        packet = self.microphone.next_packet()
        if packet is not None:
            await self.socket.send(packet)

    async def acknowledge(self):
        """Reports the playback position, if the conversation's client does so."""
        told = None
        while self.acknowledges_every:
            await asyncio.sleep(self.acknowledges_every / 1000)
            heard = self.loudspeaker.item_id, self.loudspeaker.heard(self.now())
            if heard[0] and heard != told:
                told = heard
                await self.send({
                    "type": "output_audio_buffer.played", "item_id": heard[0],
                    "content_index": 0, "audio_end_ms": heard[1],
                })
        await asyncio.Event().wait()

    # The server

    async def listen(self):
        async for message in self.socket:
            if not self.is_over.is_set():
                self.handle(server_event(message), self.now())
                self.check_end()

    def handle(self, event, at):
        """Handles an event of the server."""
        kind = event["type"]
        audio_ms = None
        if kind == "response.output_audio.delta":
            samples = array.array("h", base64.b64decode(event["delta"]))
            audio_ms = len(samples) * 1000 // sounds.RATE
            self.loudspeaker.play(samples, event["item_id"], at)
            self.has_heard_reply.set()
        if kind == "input_audio_buffer.committed":
            self.user_item = event["item_id"]
        self.note(event, audio_ms, at)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "input_audio_buffer.speech_started" and self.stops_at_speech:
            self.loudspeaker.stop(at)
        for action in self.actions:
            if action.get("when") == kind and self.counts[kind] == action.get("nth", 1):
                self.due.append((self.due_time(action, at), action))

    def due_time(self, action, at):
        """When an action is due whose event has come at a time. What the file has after the end of a reply
        also waits for that end here: the server's voice speaks for longer than the file's."""
        kind, after = action["when"], action.get("after", 0)
        times = [line["at"] for line in self.expected if line.get("event") == kind]
        if len(times) < action.get("nth", 1):
            return at + after
        expected, end = times[action.get("nth", 1) - 1] + after, 0
        for line in self.expected:
            if "audio_ms" in line and line["at"] <= expected:
                end = max(end, line["at"] + self.loudspeaker.latency) + line["audio_ms"]
        is_after_reply = 0 < end <= expected
        return max(at + after, self.loudspeaker.end + expected - end if is_after_reply else 0)

    def handle_asked(self, messages):
        """Handles a request to the model."""
        self.seen.append({"at": self.now(), "asked": messages})

    def note(self, event, audio_ms, at):
        """Records the relevant fields, like EventRecord in SeenEvent.swift."""
        kind = event["type"]
        item, response = event.get("item") or {}, event.get("response") or {}
        response_id = event.get("response_id") or response.get("id")
        item_id = event.get("item_id") or item.get("id")
        line = {"at": at, "event": kind}
        if response_id:
            line["response"] = self.alias(response_id)
        if item_id:
            line["item"] = self.alias(item_id)
        if audio_ms is not None:
            if item_id not in self.audio_lines:
                self.audio_lines[item_id] = line
                self.seen.append(line)
            first = self.audio_lines[item_id]
            first["audio_ms"] = first.get("audio_ms", 0) + audio_ms
            first["last"] = at
            return
        if kind in IGNORED:
            return
        line |= {name: event[name] for name in SCALARS if event.get(name) is not None}
        if kind.endswith(".delta"):
            line["delta"] = event["delta"]
        details = response.get("status_details") or {}
        if kind == "response.done":
            line["status"] = response["status"]
        if details.get("reason"):
            line["reason"] = details["reason"]
        error = event.get("error") or details.get("error") or {}
        if error.get("code"):
            line["code"] = error["code"]
        if kind == "response.done":
            parts = [part for output in response["output"] for part in output.get("content", [])]
            texts = [part.get("transcript") or part.get("text") for part in parts]
            if any(texts):
                line["said"] = " ".join(filter(None, texts))
        self.seen.append(line)

    def alias(self, identifier):
        """A short name for an id: item_… becomes i1, i2, … in order of appearance."""
        if identifier not in self.aliases:
            letter = identifier[0]
            number = 1 + sum(known[0] == letter for known in self.aliases)
            self.aliases[identifier] = f"{letter}{number}"
        return self.aliases[identifier]


def shown(line):
    """A line as written in a file, for reports."""
    fields = (f"{key}: {round(value) if isinstance(value, float) else value}"
              for key, value in line.items())
    return "{" + ", ".join(fields) + "}"


def words(text):
    """The words of a text without case and punctuation."""
    return re.findall(r"[a-z']+", text.lower())
