"""A model whose replies can be counted: every reply is the same 24 words, each once, in one order.

    numbered_model.py HOST PORT

It speaks chat completions, streamed, a word every 80 ms. Where the last message of the user asks for a
call and the request has tools, the model calls the first of them once. `GET /runs` says how often each
turn of each conversation was asked for; the instructions begin with the conversation's name."""

import asyncio
import collections
import json
import sys

from aiohttp import web

# Short words, no two of which begin alike, in clauses of four.
WORDS = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa "
    "quebec romeo sierra tango uniform victor whisky zulu"
).split()
SECONDS_PER_WORD = 0.08


def pieces():
    """The reply in the pieces in which it is streamed."""
    for index, word in enumerate(WORDS):
        mark = "." if index + 1 == len(WORDS) else "," if index % 4 == 3 else ""
        yield f"{'' if index == 0 else ' '}{word}{mark}"


class Model:
    """Answers requests, and counts them."""

    def __init__(self):
        self.runs = collections.Counter()

    async def answer(self, request):
        body = await request.json()
        messages = body["messages"]
        name = str(messages[0]["content"]).split(".")[0]
        turns = sum(each["role"] == "user" for each in messages)
        answered = messages[-1]["role"] == "tool"
        self.runs[f"{name} turn {turns}{' result' if answered else ''}"] += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        asks = "call" in str(messages[-1].get("content"))
        if asks and body.get("tools") and not answered:
            await self.call(response, body["tools"][0]["function"]["name"], f"{name}-{turns}")
        else:
            for piece in pieces():
                await self.send(response, {"content": piece})
                await asyncio.sleep(SECONDS_PER_WORD)
            await self.send(response, {}, "stop")
        await response.write(b"data: [DONE]\n\n")
        return response

    async def call(self, response, function, identity):
        call = {"index": 0, "id": f"call_{identity}", "type": "function"}
        call["function"] = {"name": function, "arguments": '{"number": 7}'}
        await self.send(response, {"tool_calls": [call]})
        await asyncio.sleep(SECONDS_PER_WORD)
        await self.send(response, {}, "tool_calls")

    async def send(self, response, delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        await response.write(f"data: {json.dumps(event)}\n\n".encode())


async def serve(host, port):
    model = Model()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", model.answer)
    application.router.add_get("/runs", lambda _: _runs(model))
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=4096).start()
    await asyncio.Event().wait()


async def _runs(model):
    return web.json_response(model.runs)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
