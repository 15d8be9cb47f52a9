"""A chat-completions server that plays the model of the conversations in Tests/Fixtures.

A request's instructions name its conversation. The requests of one conversation get its replies in
order."""

import asyncio
import json
import re

NAME = re.compile(r"conversation: ([a-z0-9-]+)")


class ScriptedMind:
    """Listens from `async with` to its end, on the clients' event loop."""

    def __init__(self):
        self.conversations = {}
        self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"

    def expect(self, conversation):
        """Registers a conversation; its requests are passed to its `handle_asked`."""
        self.conversations[conversation.name] = (conversation, iter(conversation.model))

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        """Serves one connection, with any number of requests."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(re.search(r"content-length: *(\d+)", head, re.IGNORECASE)[1])
                body = json.loads(await reader.readexactly(length))
                await self.answer(body, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # The client has cancelled the reply, or sends no more requests.
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
            # Sends nothing; the reply ends when the client cancels it.
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
            # Cut off: the last chunk is missing. Not before the words are heard, which are spoken late
            # on a busy machine.
            await conversation.has_heard_reply.wait()
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
    """The author and the text of a message, as written in the conversations' files."""
    if message["role"] == "tool":
        return f"returns {message['content']}"
    if message.get("tool_calls"):
        function = message["tool_calls"][0]["function"]
        return f"calls {function['name']} {function['arguments']}"
    return f"{message['role']}: {message['content']}"
