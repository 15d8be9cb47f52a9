"""A model that answers with the last message, and a voice that speaks recordings: services with the
interfaces of OpenAI on a free port, for measurements of what a server does with their answers. They
run in the event loop of the measurement."""

import json

from aiohttp import web
from recorded_speech import RATE, speech

# A second of speech has some 15 letters.
BYTES_PER_LETTER = RATE * 2 // 15


class ScriptedServices:
    """Listens from `async with` to its end."""

    async def __aenter__(self):
        self.audio = speech(60)
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/audio/speech", self.speak)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()

    async def chat(self, request):
        text = (await request.json())["messages"][-1]["content"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        choices = [{"index": 0, "delta": {"role": "assistant", "content": text}}]
        end = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        for chunk in (choices, end):
            event = {"id": "c", "object": "chat.completion.chunk", "choices": chunk}
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def speak(self, request):
        text = (await request.json())["input"]
        length = BYTES_PER_LETTER * len(text) & ~1
        # The same words sound the same.
        first = 2 * (hash(text) % ((len(self.audio) - length) // 2))
        return web.Response(
            body=self.audio[first : first + length], headers={"Content-Type": "audio/pcm"})
