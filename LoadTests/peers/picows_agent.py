# An agent session server on picows, written as its README recommends (the core API: a WSListener
# per connection, ws_create_server), on uvloop. The model is called through aiohttp, as users of
# picows do. One process, one thread. Fragmented messages are not supported: picows leaves them to
# the application, and no client here sends any.
#
# Serves the part of the Realtime protocol that the claims need, and /echo; no HTTP.
#
# python picows_agent.py PORT MODEL_URL
import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import aiohttp
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

PORT, MODEL_URL = int(sys.argv[1]), sys.argv[2]


def call_tool(text: str) -> int:
    """A CPU-heavy tool: "burn=500" in a user's text computes for 500 milliseconds."""
    call = re.search(r"\bburn=(\d+)", text)
    end = time.monotonic() + (int(call[1]) / 1000 if call else 0)
    primes, n = 0, 2
    while time.monotonic() < end:
        d = 2
        while d * d <= n and n % d:
            d += 1
        primes += d * d > n
        n += 1
    return primes


async def model_deltas(client: aiohttp.ClientSession, messages: list[dict]) -> AsyncIterator[str]:
    body = {"model": "scripted", "stream": True, "messages": messages}
    async with client.post(MODEL_URL, json=body) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].rstrip()
            if data == b"[DONE]":
                return
            choices = json.loads(data)["choices"]
            if choices and (delta := choices[0]["delta"].get("content")):
                yield delta


class Echo(WSListener):
    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        elif frame.msg_type == WSMsgType.PING:
            transport.send_pong(frame.get_payload_as_bytes())
        else:
            transport.send(frame.msg_type, frame.get_payload_as_memoryview())


class Session(WSListener):
    def __init__(self, client: aiohttp.ClientSession, model: str) -> None:
        super().__init__()
        self.client = client
        self.messages: list[dict] = []
        self.response: asyncio.Task | None = None
        self.settings = {"id": f"sess_{uuid4()}", "object": "realtime.session",
                         "type": "realtime", "model": model}

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        self.send("session.created", session=self.settings)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self.response:
            self.response.cancel()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        elif frame.msg_type == WSMsgType.PING:
            transport.send_pong(frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.TEXT:
            self.handle(json.loads(frame.get_payload_as_utf8_text()))

    def send(self, kind: str, **fields: object) -> None:
        event = {"type": kind, "event_id": f"event_{uuid4()}", **fields}
        self.transport.send(WSMsgType.TEXT, json.dumps(event).encode())

    def fail(self, message: str) -> None:
        self.send("error", error={"type": "invalid_request_error", "message": message})

    def handle(self, event: dict) -> None:
        match event["type"]:
            case "session.update":
                self.settings.update(event["session"])
                self.send("session.updated", session=self.settings)
            case "conversation.item.create":
                item = {"id": f"item_{uuid4()}", "object": "realtime.item", **event["item"]}
                text = "".join(part.get("text", "") for part in item["content"])
                self.messages.append({"role": item["role"], "content": text})
                self.send("conversation.item.added", item=item)
                self.send("conversation.item.done", item=item)
            case "response.create":
                if self.response and not self.response.done():
                    self.fail("a response is in progress")
                else:
                    self.response = asyncio.get_running_loop().create_task(self.respond())
            case kind:
                self.fail(f"unknown event type {kind}")

    async def respond(self) -> None:
        response = {"id": f"resp_{uuid4()}", "object": "realtime.response"}
        place = {"response_id": response["id"], "item_id": f"item_{uuid4()}",
                 "output_index": 0, "content_index": 0}
        self.send("response.created", response={**response, "status": "in_progress", "output": []})
        text, status = "", "completed"
        try:
            call_tool(self.messages[-1]["content"] if self.messages else "")
            async for delta in model_deltas(self.client, self.messages):
                text += delta
                self.send("response.output_text.delta", **place, delta=delta)
        except aiohttp.ClientError as error:
            print(repr(error), file=sys.stderr)
            status = "failed"
        self.messages.append({"role": "assistant", "content": text})
        self.send("response.output_text.done", **place, text=text)
        item = {"id": place["item_id"], "type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text}]}
        self.send("response.done", response={**response, "status": status, "output": [item]})


async def main() -> None:
    # By default a client has 100 connections, and a request may take five minutes.
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:

        def make_listener(request: WSUpgradeRequest) -> WSListener:
            url = urlsplit(request.path.decode())
            if url.path == "/echo":
                return Echo()
            return Session(client, parse_qs(url.query).get("model", ["scripted"])[0])

        server = await ws_create_server(make_listener, "127.0.0.1", PORT, backlog=65535)
        await server.serve_forever()


uvloop.run(main())
