"""A chat-completions server that plays the model's part of the conversations in Tests/Fixtures.

Which conversation a request belongs to stands in its instructions; the requests of one conversation
get its replies one after another."""

import asyncio
import json
import re

NAME = re.compile(r"conversation: ([a-z0-9-]+)")


class ScriptedMind:
    """Listens from `async with` to its end, on the loop that the clients run on."""

    def __init__(self):
        self.conversations = {}
        self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"

    def expect(self, conversation):
        """Requests of a conversation are told to its `handle_asked`."""
        self.conversations[conversation.name] = (conversation, iter(conversation.model))

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        """One connection, with any number of requests."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(re.search(r"content-length: *(\d+)", head, re.IGNORECASE)[1])
                body = json.loads(await reader.readexactly(length))
                await self.answer(body, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # The reply is not wanted any more, or there are no more requests.
        finally:
            writer.close()

    async def answer(self, body, reader, writer):
        messages = body["messages"]
        conversation, replies = self.conversations[NAME.search(messages[0]["content"])[1]]
        conversation.handle_asked([line(message) for message in messages[1:]])
        reply = next(replies, {"says": ""})
        await asyncio.sleep(reply.get("after", 100) / 1000)
        words = re.findall(r"\S+|\s+\S+", reply.get("says", ""))
        if reply.get("hangs") and not words:
            # Not a byte; the reply is over when it is not wanted any more.
            return await self.until_closed(reader)
        if "fails" in reply and not words:
            return await self.refuse(reply["fails"], writer)
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        for index, word in enumerate(words):
            if index:
                await asyncio.sleep(reply.get("per_word", 20) / 1000)
            await self.send({"content": word}, writer)
        if "calls" in reply:
            function = reply["calls"]
            await self.send({"tool_calls": [
                {"index": 0, "id": "call_1", "type": "function", "function": function}
            ]}, writer)
        if reply.get("hangs"):
            return await self.until_closed(reader)
        if "fails" in reply:
            # Broken off: the chunks never end.
            raise ConnectionError
        await self.send({}, writer, "tool_calls" if "calls" in reply else "stop")
        writer.write(chunk(b"data: [DONE]\n\n") + chunk(b""))
        await writer.drain()
        return None

    async def until_closed(self, reader):
        await reader.read()
        raise ConnectionError

    async def refuse(self, status, writer):
        body = json.dumps({"error": {"message": "scripted", "type": "server_error"}}).encode()
        head = f"HTTP/1.1 {status} Scripted\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    async def send(self, delta, writer, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        writer.write(chunk(f"data: {json.dumps(event)}\n\n".encode()))
        await writer.drain()


def chunk(data):
    """One chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def line(message):
    """Who says what, as the conversations' files write it."""
    if message["role"] == "tool":
        return f"returns {message['content']}"
    if message.get("tool_calls"):
        function = message["tool_calls"][0]["function"]
        return f"calls {function['name']} {function['arguments']}"
    return f"{message['role']}: {message['content']}"
