# An agent session server on FastAPI, written as its documentation recommends: a WebSocket endpoint,
# a StreamingResponse for SSE, a lifespan that owns the HTTP client; uvicorn with its standard
# extras (uvloop, httptools). One process; users run one such process per core (`--workers`).
#
# The model is called through httpx, the client of the openai package and of FastAPI's own
# documentation. AIOHTTP=1 selects aiohttp, which the openai package offers "for improved
# concurrency". The claims use it, so that the client library is not the bottleneck.
#
# Serves the part of the Realtime protocol that the claims need, /echo, the same model over SSE at
# POST /v1/chat/completions, and a hello at /.
#
# python fastapi_agent.py PORT MODEL_URL
import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import aiohttp
import httpx
import uvicorn
from fastapi import FastAPI, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

PORT, MODEL_URL = int(sys.argv[1]), sys.argv[2]
USES_AIOHTTP = os.environ.get("AIOHTTP") == "1"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    if USES_AIOHTTP:
        # By default a client has 100 connections, and a request may take five minutes.
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        client = aiohttp.ClientSession(connector=connector, timeout=timeout)
    else:
        # By default a client has 100 connections, and waits 5 s for one and for each read.
        limits = httpx.Limits(max_connections=None)
        client = httpx.AsyncClient(timeout=None, limits=limits)
    async with client as app.state.model:
        yield


app = FastAPI(lifespan=lifespan)


def burn(milliseconds: int) -> int:
    """A CPU-heavy tool: computes for the given milliseconds."""
    end = time.monotonic() + milliseconds / 1000
    primes, n = 0, 2
    while time.monotonic() < end:
        d = 2
        while d * d <= n and n % d:
            d += 1
        primes += d * d > n
        n += 1
    return primes


async def call_tool(text: str) -> None:
    """"burn=500" in a user's text calls that tool where the session is, "burn=500 aside" in a
    thread, which is what FastAPI does with endpoints that are not async."""
    if call := re.search(r"\bburn=(\d+)( aside)?", text):
        if call[2]:
            await asyncio.to_thread(burn, int(call[1]))
        else:
            burn(int(call[1]))


async def model_lines(messages: list[dict]) -> AsyncIterator[str]:
    body = {"model": "scripted", "stream": True, "messages": messages}
    if USES_AIOHTTP:
        async with app.state.model.post(MODEL_URL, json=body) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                yield line.decode().rstrip()
    else:
        async with app.state.model.stream("POST", MODEL_URL, json=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                yield line


async def model_deltas(messages: list[dict]) -> AsyncIterator[str]:
    async for line in model_lines(messages):
        if not line.startswith("data: "):
            continue
        if line == "data: [DONE]":
            return
        choices = json.loads(line[6:])["choices"]
        if choices and (delta := choices[0]["delta"].get("content")):
            yield delta


class Session:
    def __init__(self, websocket: WebSocket, model: str) -> None:
        self.websocket = websocket
        self.messages: list[dict] = []
        self.response: asyncio.Task | None = None
        self.settings = {"id": f"sess_{uuid4()}", "object": "realtime.session",
                         "type": "realtime", "model": model}

    async def send(self, kind: str, **fields: object) -> None:
        event = {"type": kind, "event_id": f"event_{uuid4()}", **fields}
        await self.websocket.send_text(json.dumps(event))

    async def fail(self, message: str) -> None:
        await self.send("error", error={"type": "invalid_request_error", "message": message})

    async def run(self) -> None:
        await self.send("session.created", session=self.settings)
        try:
            async for text in self.websocket.iter_text():
                await self.handle(json.loads(text))
        finally:
            if self.response:
                self.response.cancel()

    async def handle(self, event: dict) -> None:
        match event["type"]:
            case "session.update":
                self.settings.update(event["session"])
                await self.send("session.updated", session=self.settings)
            case "conversation.item.create":
                item = {"id": f"item_{uuid4()}", "object": "realtime.item", **event["item"]}
                text = "".join(part.get("text", "") for part in item["content"])
                self.messages.append({"role": item["role"], "content": text})
                await self.send("conversation.item.added", item=item)
                await self.send("conversation.item.done", item=item)
            case "response.create":
                if self.response and not self.response.done():
                    await self.fail("a response is in progress")
                else:
                    self.response = asyncio.create_task(self.respond())
            case kind:
                await self.fail(f"unknown event type {kind}")

    async def respond(self) -> None:
        response = {"id": f"resp_{uuid4()}", "object": "realtime.response"}
        place = {"response_id": response["id"], "item_id": f"item_{uuid4()}",
                 "output_index": 0, "content_index": 0}
        await self.send("response.created",
                        response={**response, "status": "in_progress", "output": []})
        text, status = "", "completed"
        try:
            await call_tool(self.messages[-1]["content"] if self.messages else "")
            async for delta in model_deltas(self.messages):
                text += delta
                await self.send("response.output_text.delta", **place, delta=delta)
        except (httpx.HTTPError, aiohttp.ClientError) as error:
            print(repr(error), file=sys.stderr)
            status = "failed"
        self.messages.append({"role": "assistant", "content": text})
        await self.send("response.output_text.done", **place, text=text)
        item = {"id": place["item_id"], "type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text}]}
        await self.send("response.done", response={**response, "status": status, "output": [item]})


@app.websocket("/v1/realtime")
async def realtime(websocket: WebSocket, model: str = "scripted") -> None:
    await websocket.accept()
    await Session(websocket, model).run()


@app.websocket("/echo")
async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    # iter_bytes ends quietly when the client has gone.
    async for message in websocket.iter_bytes():
        await websocket.send_bytes(message)


class Completion(BaseModel):
    model: str = "scripted"
    messages: list[dict]


@app.post("/v1/chat/completions")
async def stream_completion(completion: Completion) -> StreamingResponse:
    identifier = f"chatcmpl-{uuid4()}"

    async def events() -> AsyncIterator[str]:
        async for content in model_deltas(completion.messages):
            choices = [{"index": 0, "delta": {"content": content}, "finish_reason": None}]
            chunk = {"id": identifier, "object": "chat.completion.chunk",
                     "model": completion.model, "choices": choices}
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@app.get("/")
async def hello() -> dict:
    return {"hello": "world"}


if __name__ == "__main__":
    # Work that the other peers do not do is switched off: a log line per connection, compression.
    # Pings are off because a generator may answer 10,000 of them late and would be disconnected.
    with suppress(KeyboardInterrupt):
        uvicorn.run(app, host="127.0.0.1", port=PORT, access_log=False, log_level="warning",
                    ws_per_message_deflate=False, ws_ping_interval=None, backlog=65535)
