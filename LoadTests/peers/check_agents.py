# Checks that the agent servers of this folder do the same work. Each is started beside a scripted
# model in this script. It must serve the events of the subset and keep a conversation of two turns. It
# must pass on each delta at once, and cancel the model's answer when its client disconnects. It must
# serve 100 clients at the same time. `make check-peers` installs what it needs and runs it.
#
# check_agents.py [NAME…]      of node, node-http, bun, fastapi, picows, nio
import asyncio
import json
import os
import re
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PYTHON = sys.executable
TOOLS = Path(PYTHON).parent
COMMANDS = {
    "node": [TOOLS / "node", HERE / "node_ws_agent.cjs"],
    "node-http": [TOOLS / "node", HERE / "node_http_agent.cjs"],
    "bun": ["env", "BUN_CONFIG_MAX_HTTP_REQUESTS=20000", TOOLS / "bun", HERE / "bun_agent.js"],
    "fastapi": [PYTHON, HERE / "fastapi_agent.py"],
    "fastapi-aiohttp": ["env", "AIOHTTP=1", PYTHON, HERE / "fastapi_agent.py"],
    "picows": [PYTHON, HERE / "picows_agent.py"],
    "nio": [ROOT / ".build-nio" / "release" / "nio-agent"],
}
HTTP_ONLY = {"node-http"}
WITH_HTTP = {"node", "node-http", "bun", "fastapi", "fastapi-aiohttp"}
FIRST_PORT = int(os.environ.get("FIRST_PORT", "9450"))


class ScriptedModel:
    """Chat completions over SSE; the last message sets the number of deltas and their rate."""

    def __init__(self) -> None:
        self.asked: list[list[dict]] = []
        self.sent: dict[str, float] = {}
        self.broken_off = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: *(\d+)", head, re.I)
                # Node's and Bun's fetch may send a body in chunks.
                body = await (reader.readexactly(int(length[1])) if length else chunks(reader))
                await self.answer(json.loads(body), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, request: dict, writer: asyncio.StreamWriter) -> None:
        assert request["stream"] is True
        self.asked.append(request["messages"])
        text = request["messages"][-1]["content"]
        tokens = int(re.search(r"tokens=(\d+)", text)[1])
        rate = float(re.search(r"rate=(\d+)", text)[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        for index in range(tokens):
            await asyncio.sleep(1 / rate)
            delta = f"{time.monotonic_ns()}-{index} "
            chunk = {"choices": [{"index": 0, "delta": {"content": delta}}]}
            self.write(writer, f"data: {json.dumps(chunk)}\n\n")
            try:
                await writer.drain()
            except ConnectionError:
                self.broken_off += 1
                raise
        self.write(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")

    @staticmethod
    def write(writer: asyncio.StreamWriter, text: str) -> None:
        writer.write(f"{len(text):x}\r\n{text}\r\n".encode())


async def chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


async def receive(socket: ClientConnection, kind: str) -> dict:
    event = json.loads(await asyncio.wait_for(socket.recv(), 20))
    assert event["type"] == kind, f"{event['type']} came where {kind} was due: {event}"
    return event


async def say(socket: ClientConnection, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    await socket.send(json.dumps({"type": "conversation.item.create", "item": item}))
    for kind in ["conversation.item.added", "conversation.item.done"]:
        said = (await receive(socket, kind))["item"]
        assert said["role"] == "user" and said["content"] == content
    await socket.send(json.dumps({"type": "response.create"}))
    created = await receive(socket, "response.created")
    assert created["response"]["status"] == "in_progress"


async def hear(socket: ClientConnection, tokens: int) -> tuple[str, float]:
    """Reads a reply: returns its text, and the longest delay of a delta from the model, in seconds."""
    text, slowest = "", 0.0
    for index in range(tokens):
        delta = (await receive(socket, "response.output_text.delta"))["delta"]
        sent, number = delta.split("-")
        assert int(number) == index
        slowest = max(slowest, (time.monotonic_ns() - int(sent)) / 1e9)
        text += delta
    assert (await receive(socket, "response.output_text.done"))["text"] == text
    done = (await receive(socket, "response.done"))["response"]
    assert done["status"] == "completed" and done["output"][0]["content"][0]["text"] == text
    return text, slowest


@asynccontextmanager
async def session(port: int):
    async with connect(f"ws://127.0.0.1:{port}/v1/realtime?model=m", proxy=None) as socket:
        created = await receive(socket, "session.created")
        assert created["session"]["model"] == "m" and created["session"]["id"]
        yield socket


async def check(name: str, port: int, model: ScriptedModel) -> None:
    if name not in HTTP_ONLY:
        await check_sessions(port, model)
    if name in WITH_HTTP:
        await check_http(port)


async def check_sessions(port: int, model: ScriptedModel) -> None:
    async with session(port) as socket:
        update = {"type": "realtime", "output_modalities": ["text"], "instructions": "Be brief."}
        await socket.send(json.dumps({"type": "session.update", "session": update}))
        updated = (await receive(socket, "session.updated"))["session"]
        assert updated["output_modalities"] == ["text"]
        await say(socket, "One: tokens=5 rate=20")
        first, slowest = await hear(socket, 5)
        assert slowest < 0.04, f"a delta took {slowest * 1000:.1f} ms: passed on one by one?"
        await say(socket, "Two: tokens=3 rate=50")
        await hear(socket, 3)
        spoken = [(message["role"], message["content"]) for message in model.asked[-1]]
        assert spoken[-3:] == [("user", "One: tokens=5 rate=20"), ("assistant", first),
                               ("user", "Two: tokens=3 rate=50")], spoken
    async with session(port) as socket:
        await say(socket, "tokens=400 rate=50")
        for _ in range(3):
            await receive(socket, "response.output_text.delta")
    for _ in range(60):
        await asyncio.sleep(0.05)
        if model.broken_off:
            break
    assert model.broken_off == 1, "the model was not left alone when the client had gone"
    model.broken_off = 0

    async def client() -> None:
        async with session(port) as socket:
            for _ in range(2):
                await say(socket, "tokens=10 rate=20")
                await hear(socket, 10)

    await asyncio.gather(*[client() for _ in range(100)])
    async with connect(f"ws://127.0.0.1:{port}/echo", proxy=None) as socket:
        for message in [b"\0\1" * 80, b"x" * 1024]:
            await socket.send(message)
            assert await asyncio.wait_for(socket.recv(), 5) == message


async def check_http(port: int) -> None:
    async def ask(head: str, body: str = "") -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
                     f"application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = (await asyncio.wait_for(reader.read(), 10)).decode()
        writer.close()
        return answer

    assert '{"hello":"world"}' in await ask("GET /")
    messages = [{"role": "user", "content": "tokens=4 rate=50"}]
    answer = await ask("POST /v1/chat/completions", json.dumps(
        {"model": "m", "stream": True, "messages": messages}))
    deltas = re.findall(r'"content": ?"\d+-(\d+) "', answer)
    assert deltas == ["0", "1", "2", "3"] and "data: [DONE]" in answer, answer


async def main() -> int:
    failed = 0
    names = sys.argv[1:] or list(COMMANDS)
    for index, name in enumerate(names):
        if not Path(COMMANDS[name][-1]).exists():
            print(f"{name:16} not built")
            continue
        port, model = FIRST_PORT + 1 + index, ScriptedModel()
        server = await asyncio.start_server(model.serve, "127.0.0.1", FIRST_PORT, backlog=1024)
        url = f"http://127.0.0.1:{FIRST_PORT}/v1/chat/completions"
        process = await asyncio.create_subprocess_exec(*map(str, COMMANDS[name]), str(port), url)
        try:
            await until_listening(port)
            await check(name, port, model)
            print(f"{name:16} serves the subset")
        except Exception as error:  # a faulty peer may cause any exception
            failed += 1
            print(f"{name:16} FAILED: {error!r}")
        finally:
            process.terminate()
            await process.wait()
            server.close()
    return 1 if failed else 0


async def until_listening(port: int) -> None:
    for _ in range(200):
        try:
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            return
        except OSError:
            await asyncio.sleep(0.05)
    raise TimeoutError(f"no server listens on {port}")


sys.exit(asyncio.run(main()))
