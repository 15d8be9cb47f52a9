"""A storm of client events: clients send events of every kind without waiting for answers. At the
end, every response that was created must have ended exactly once, and every connection that is
closed must have received its Close.

    storm.py URL [--clients 12] [--seconds 60] [--seed 1] [--patience 300]

The only time limit is `--patience`, which is far longer than any machine needs."""

import argparse
import asyncio
import base64
import collections
import dataclasses
import json
import random
import sys
import time

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

AUDIO = bytes(960)


@dataclasses.dataclass
class Tally:
    """Counts the outcomes of a storm's connections and responses."""

    connections: int = 0
    events: int = 0
    created: int = 0
    done: int = 0
    twice: int = 0
    unknown: int = 0
    open: int = 0
    closed_by_server: int = 0
    without_close: int = 0
    slowest_end: float = 0
    problems: list = dataclasses.field(default_factory=list)

    @property
    def is_clean(self):
        return self.open == self.twice == self.unknown == self.without_close == 0


class StormClient:
    """One connection. A seed determines what it sends; of what it receives it keeps the ids."""

    def __init__(self, socket, seed):
        self.socket = socket
        self.draw = random.Random(seed)
        self.items = collections.deque(maxlen=50)
        self.created, self.ended = [], []
        self.latest = asyncio.Event()
        self.code = None
        self.number = 0

    @property
    def open(self):
        return set(self.created) - set(self.ended)

    async def read(self):
        """Reads events until the connection is closed."""
        try:
            async for data in self.socket:
                if isinstance(data, bytes):
                    continue
                event = json.loads(data)
                if event["type"] == "response.created":
                    self.created.append(event["response"]["id"])
                elif event["type"] == "response.done":
                    self.ended.append(event["response"]["id"])
                elif event["type"] == "conversation.item.done":
                    self.items.append(event["item"]["id"])
                self.latest.set()
        except ConnectionClosed:
            pass
        self.latest.set()

    async def send(self, kind, **fields):
        self.number += 1
        await self.socket.send(json.dumps({"type": kind, "event_id": f"e{self.number}", **fields}))

    def item(self):
        return self.draw.choice(self.items) if self.items else "item_none"

    async def storm_once(self):
        """Sends one event of a randomly chosen kind."""
        draw = self.draw
        kind = draw.choices(
            ["text", "create", "cancel", "append", "packet", "commit", "clear", "truncate",
             "update", "delete", "retrieve", "output-clear", "ping"],
            [20, 20, 20, 10, 10, 3, 3, 2, 6, 4, 3, 2, 2])[0]
        if kind == "text":
            part = {"type": "input_text", "text": f"Tell me about {draw.randrange(1000)}."}
            await self.send("conversation.item.create", item={
                "type": "message", "role": "user", "content": [part]})
        elif kind == "create":
            await self.send("response.create", response={
                "output_modalities": [draw.choice(["text", "audio"])],
                **({"conversation": "none"} if draw.random() < 0.2 else {})})
        elif kind == "cancel":
            known = {"response_id": draw.choice(self.created)} if self.created else {}
            await self.send("response.cancel", **(known if draw.random() < 0.5 else {}))
        elif kind == "append":
            await self.send(
                "input_audio_buffer.append", audio=base64.b64encode(AUDIO * 5).decode())
        elif kind == "packet":
            await self.socket.send(AUDIO)
        elif kind == "commit":
            await self.send("input_audio_buffer.commit")
        elif kind == "clear":
            await self.send("input_audio_buffer.clear")
        elif kind == "truncate":
            await self.send(
                "conversation.item.truncate", item_id=self.item(), content_index=0,
                audio_end_ms=draw.randrange(500))
        elif kind == "update":
            detection = draw.choice([None, {"type": "server_vad"}, {"type": "semantic_vad"}])
            await self.send("session.update", session={
                "type": "realtime", "audio": {"input": {"turn_detection": detection}}})
        elif kind == "delete":
            await self.send("conversation.item.delete", item_id=self.item())
        elif kind == "retrieve":
            await self.send("conversation.item.retrieve", item_id=self.item())
        elif kind == "output-clear":
            await self.send("output_audio_buffer.clear")
        else:
            await self.socket.ping()

    async def settle(self):
        """Cancels open responses and waits until none is left. The answer to a final update shows
        that everything before it has been answered."""
        await self.send("session.update", session={
            "type": "realtime", "audio": {"input": {"turn_detection": None}}})
        await self.send("input_audio_buffer.clear")
        asked = set()
        while self.socket.state.name == "OPEN":
            self.latest.clear()
            for response in self.open - asked:
                asked.add(response)
                await self.send("response.cancel", response_id=response)
            if not self.open and await self.is_answered():
                return
            if self.open:
                await self.latest.wait()

    async def is_answered(self):
        """Waits for a pong, which follows what was sent before it; returns whether nothing is
        open."""
        await (await self.socket.ping())
        return not self.open


async def run_client(url, seed, end, patience, tally):
    """Runs one connection after another until the end of the storm."""
    draw = random.Random(seed)
    while time.monotonic() < end:
        # The requirements do not depend on how soon the server fulfils them.
        socket = await connect(
            url, subprotocols=["realtime"], open_timeout=patience, ping_interval=None,
            close_timeout=patience, max_queue=None)
        client = StormClient(socket, draw.random())
        reader = asyncio.create_task(client.read())
        tally.connections += 1
        begun = None
        try:
            async with asyncio.timeout(patience + max(0, end - time.monotonic())):
                try:
                    for _ in range(draw.randrange(20, 400)):
                        await client.storm_once()
                        if draw.random() < 0.2:
                            await asyncio.sleep(draw.random() * 0.02)
                        if time.monotonic() > end:
                            break
                    begun = time.monotonic()
                    if draw.random() < 0.7:
                        await client.settle()
                        tally.slowest_end = max(tally.slowest_end, time.monotonic() - begun)
                        settled = True
                    else:
                        settled = False
                    await socket.close()
                except ConnectionClosed:
                    settled = False
                    tally.closed_by_server += 1
                await reader
        except TimeoutError:
            settled = True
            tally.problems.append(f"seed {seed}: open after {patience} s: {sorted(client.open)}")
        await socket.close()
        reader.cancel()
        note(client, socket, settled, tally)


def note(client, socket, settled, tally):
    ends = collections.Counter(client.ended)
    tally.events += client.number
    tally.created += len(client.created)
    tally.done += len(client.ended)
    tally.twice += sum(count > 1 for count in ends.values())
    tally.unknown += len(set(client.ended) - set(client.created))
    if settled:
        tally.open += len(client.open)
    protocol = socket.protocol
    if protocol.close_rcvd is None:
        tally.without_close += 1
        tally.problems.append(f"no Close: {protocol.close_exc!r}, {len(client.open)} open")


async def storm(url, clients=12, seconds=60, seed=1, patience=300):
    """Runs a storm, and returns its tally."""
    tally = Tally()
    end = time.monotonic() + seconds
    await asyncio.gather(*(
        run_client(url, seed * 1000 + number, end, patience, tally) for number in range(clients)))
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=300)
    options = parser.parse_args()
    tally = asyncio.run(storm(**vars(options)))
    print(tally)
    sys.exit(0 if tally.is_clean else 1)


if __name__ == "__main__":
    main()
