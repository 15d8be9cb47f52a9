"""A chat-completions application for hypercorn, which speaks HTTP/2. Every turn is answered with
the HTTP version of its request and the number of connections so far."""

import json

PEERS = set()


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    PEERS.add(tuple(scope["client"]))
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    content = f"HTTP/{scope['http_version']}, {len(PEERS)} connection(s)"
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": "stop"}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}
    body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
    await send({"type": "http.response.body", "body": body})
