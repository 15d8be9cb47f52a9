"""Runs a FastAPI app, as those of examples/brain, and writes down what reaches it.

    watched_brain.py FILE PORT RECORD

Two lines of JSON for each request: `{"number", "path", "headers", "body"}` once it is there, and
`{"number", "completed", "status"}` at its end; not completed where the caller closed the connection.
Requests are numbered from 0 as they come."""

import importlib.util
import itertools
import json
import pathlib
import sys

import uvicorn


def load(path):
    """The `app` of a Python file, which may import its neighbours."""
    sys.path.insert(0, str(path.parent))
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.app


class Watched:
    """An ASGI application around another."""

    def __init__(self, app, record):
        self.app, self.record = app, record
        self.numbers = itertools.count()

    def write(self, **line):
        print(json.dumps(line), file=self.record, flush=True)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = b""
        state = {"completed": False, "status": 0}

        async def watched_receive():
            nonlocal body
            message = await receive()
            if message["type"] == "http.request":
                body += message.get("body", b"")
                if not message.get("more_body"):
                    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                    state["number"] = next(self.numbers)
                    self.write(
                        number=state["number"], path=scope["path"], headers=headers,
                        body=json.loads(body or "null"))
            return message

        async def watched_send(message):
            await send(message)
            state["status"] = message.get("status", state["status"])
            if message["type"] == "http.response.body" and not message.get("more_body"):
                state["completed"] = True

        try:
            await self.app(scope, watched_receive, watched_send)
        finally:
            self.write(**state)


if __name__ == "__main__":
    with open(sys.argv[3], "w", encoding="utf-8") as record:
        app = Watched(load(pathlib.Path(sys.argv[1])), record)
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
