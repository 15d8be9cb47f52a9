"""A speech service with OpenAI's /audio/transcriptions, /audio/speech and /chat/completions. On
request it is slow, refuses, cuts answers off or sends invalid ones.

Its speech is a recording of a person, as samples or as Ogg Opus made by opusenc. Its chat
completions answer with the duration of the audio in the request."""

import asyncio
import base64
import io
import json
import subprocess
import threading
import time
import wave

from aiohttp import web
from parley_server import HANG_GUARD
from recordings import DATA, convert

SPOKEN = "go forward ten meters"


class SpeechService:
    """Listens from `with` to its end; `requests` are the requests so far.

    Each request uses up one of `behaviours`: `die`, `reset`, `slow`, `junk`, `html`, `mp3`,
    `empty`, `wav`, `flood`, `damaged`, `long frames`, `429 SECONDS` or a status. After the
    last, every answer is valid."""

    def __init__(self, folder):
        self.requests = []
        self.behaviours = []
        recording = convert(DATA / "goforward.raw", folder / "service.s16", rate=24000)
        self.samples = recording.read_bytes()
        self.ogg = opusenc(self.samples, folder / "service.ogg")
        self.ogg_60 = opusenc(self.samples, folder / "service60.ogg", "--framesize", "60")
        self.spoken_at = None
        # Lets an answer that begins with `Halfway: ` continue after its first sentence.
        self.second_half = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.port = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        started = threading.Event()
        threading.Thread(target=self.run, args=(started,), daemon=True).start()
        assert started.wait(HANG_GUARD)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop)

    def stop(self):
        """Cancels the answers that never end, and then stops the loop."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.stop)

    def run(self, started):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        started.set()
        self.loop.run_forever()

    async def listen(self):
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/audio/transcriptions", self.transcribe)
        app.router.add_post("/v1/audio/speech", self.speak)
        app.router.add_post("/v1/chat/completions", self.chat)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    def asked(self, path):
        return [request for request in self.requests if request["path"] == path]

    async def misbehave(self, request, behaviour):
        """Sends an invalid answer; returns None if a valid answer is to follow, perhaps late."""
        if behaviour == "reset":
            request.transport.abort()
            return web.Response()
        if behaviour == "slow":
            await asyncio.sleep(0.3)
        if behaviour == "junk":
            return web.Response(body=b"{\"this\": is not it", content_type="application/json")
        if behaviour == "html":
            return web.Response(text="<html>Log in first.</html>" * 500, content_type="text/html")
        if behaviour == "mp3":
            return web.Response(body=bytes(range(256)) * 200, content_type="audio/mpeg")
        if behaviour == "empty":
            return web.Response(body=b"", content_type="audio/pcm")
        status, _, seconds = behaviour.partition(" ")
        if status.isdigit():
            error = {"error": {"message": f"no, not at {self.url} with sk-secret"}}
            headers = {"Retry-After": seconds} if seconds else {}
            return web.json_response(error, status=int(status), headers=headers)
        return None

    def next_behaviour(self):
        return self.behaviours.pop(0) if self.behaviours else "good"

    async def transcribe(self, request):
        form = await request.post()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        with wave.open(io.BytesIO(form["file"].file.read())) as audio:
            fields["seconds"] = audio.getnframes() / audio.getframerate()
            fields["rate"] = audio.getframerate()
        self.requests.append({"path": request.path, "headers": request.headers, **fields})
        behaviour = self.next_behaviour()
        if bad := await self.misbehave(request, behaviour):
            return bad
        if fields.get("stream") != "true":
            return web.json_response({"text": SPOKEN})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for index, word in enumerate(SPOKEN.split()):
            delta = word if index == 0 else f" {word}"
            await send(response, {"type": "transcript.text.delta", "delta": delta})
            if behaviour == "die":
                request.transport.abort()
                return response
            await asyncio.sleep(0.02)
        usage = {"type": "tokens", "input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        await send(response, {"type": "transcript.text.done", "text": SPOKEN, "usage": usage})
        return response

    async def speak(self, request):
        body = await request.json()
        self.requests.append({"path": request.path, "headers": request.headers, **body})
        behaviour = self.next_behaviour()
        if bad := await self.misbehave(request, behaviour):
            return bad
        content = self.ogg if body["response_format"] == "opus" else self.samples
        if behaviour == "long frames":
            content = self.ogg_60
        if behaviour == "wav":
            file = io.BytesIO()
            with wave.open(file, "wb") as audio:
                audio.setnchannels(1)
                audio.setsampwidth(2)
                audio.setframerate(24000)
                audio.writeframes(self.samples)
            content = file.getvalue()
        if behaviour == "damaged":
            content = content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :]
        response = web.StreamResponse(headers={"Content-Type": "audio/ogg"})
        await response.prepare(request)
        while behaviour == "flood":
            await response.write(self.samples)
        for start in range(0, len(content), 1000):
            await response.write(content[start : start + 1000])
            if behaviour == "die" and start > len(content) // 2:
                request.transport.abort()
                return response
        return response

    async def chat(self, request):
        body = await request.json()
        self.requests.append({"path": request.path, "headers": request.headers, **body})
        said = "I heard nothing at all."
        content = body["messages"][-1]["content"]
        if isinstance(content, list):
            audio = base64.b64decode(content[0]["input_audio"]["data"], validate=True)
            with wave.open(io.BytesIO(audio)) as heard:
                seconds = heard.getnframes() / heard.getframerate()
            said = f"I heard {seconds:.1f} seconds of you."
        if isinstance(content, str) and content.startswith(("Say: ", "Halfway: ")):
            said = content.partition(": ")[2]
        pieces = [said]
        if isinstance(content, str) and content.startswith("Halfway: "):
            first, _, rest = said.partition(". ")
            pieces = [f"{first}. ", rest]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.spoken_at = time.monotonic()
        for index, piece in enumerate(pieces):
            if index:
                await asyncio.to_thread(self.second_half.wait, HANG_GUARD)
            await send(response, completion({"role": "assistant", "content": piece}))
        await send(response, completion({}, "stop"))
        await response.write(b"data: [DONE]\n\n")
        return response


def completion(delta, reason=None):
    """A chunk of chat completions."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


async def send(response, event):
    await response.write(f"data: {json.dumps(event)}\n\n".encode())


def opusenc(samples, target, *options):
    """Samples at 24 kHz encoded as Ogg Opus."""
    subprocess.run(
        ["opusenc", "--quiet", "--raw", "--raw-bits", "16", "--raw-rate", "24000", "--raw-chan",
         "1", "--bitrate", "24", *options, "-", str(target)],
        input=samples, check=True,
    )
    return target.read_bytes()


def ogg_packets(content):
    """The audio packets of an Ogg stream, parsed by RFC 3533 without checksums."""
    packets, partial, offset = [], b"", 0
    while offset < len(content):
        assert content[offset : offset + 4] == b"OggS"
        lacing = content[offset + 27 : offset + 27 + content[offset + 26]]
        offset += 27 + len(lacing)
        for length in lacing:
            partial += content[offset : offset + length]
            offset += length
            if length < 255:
                packets.append(partial)
                partial = b""
    return packets[2:]
