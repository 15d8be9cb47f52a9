"""Servers that speak Anthropic's Messages, OpenAI's Responses and chat completions, from a script.

The last user message decides the answer. `weather` calls two functions at once, `die` cuts the
stream off, `look` lists the images received. Any other message is repeated. `status` refuses all
requests, `silent` answers none. The official SDKs parse everything that is sent here
(test_models.py)."""

import http.server
import itertools
import json
import threading

from parley_server import HANG_GUARD


class ScriptedProvider:
    """Listens from `with` to its end; records its requests and counts its connections."""

    def __init__(self):
        self.requests = []
        self.connections = 0
        self.status = 200
        self.silent = False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.server.daemon_threads = True
        self.over = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def handler(provider):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        # A connection counts with its first turn: a server that starts asks for the list of models.
        has_turn = False

        def log_message(self, *_):
            pass

        def do_POST(self):
            if not self.has_turn:
                self.has_turn = True
                provider.connections += 1
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            provider.requests.append({"path": self.path, "headers": self.headers, "body": body})
            try:
                self.answer(DIALECTS[self.path](body))
            except (BrokenPipeError, ConnectionResetError):
                pass

        def answer(self, dialect):
            if provider.silent:
                provider.over.wait(HANG_GUARD)
                self.close_connection = True
            elif provider.status != 200:
                self.refuse(provider.status, dialect.refusal)
            else:
                self.stream(dialect)

        def refuse(self, status, error):
            body = json.dumps(error).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def stream(self, dialect):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            text = dialect.text
            if "die" in text:
                for event in itertools.islice(dialect.says(["This ", "breaks "]), 4):
                    self.send_event(event)
                self.close_connection = True
                return
            *events, last = dialect.events()
            for event in events:
                self.send_event(event)
            # The end of the answer is sent together with the last event, so that a client that asks
            # again finds the connection free.
            done = chunk(b"data: [DONE]\n\n") if dialect.done else b""
            self.wfile.write(chunk(encoded(last)) + done + chunk(b""))

        def send_event(self, event):
            self.wfile.write(chunk(encoded(event)))

    return Handler


def encoded(event):
    """An event as bytes of a stream."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def chunk(data):
    """One chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Dialect:
    """What all three dialects share: reading the script."""

    done = False
    calls = [("call_1", "get_weather", '{"city":"Oslo"}'), ("call_2", "get_time", "{}")]

    def __init__(self, body):
        self.body = body
        self.text, self.images, self.results = self.read(body)

    def events(self):
        if self.results:
            return self.says(["The ", "answers ", "are ", " and ".join(self.results), "."])
        if "weather" in self.text and self.body.get("tools"):
            return self.asks()
        if "look" in self.text:
            return self.says(["I ", "see: ", " ".join(self.images)])
        return self.says(["You ", "said: ", self.text])

    def numbered(self, events):
        for number, event in enumerate(events):
            yield event | {"sequence_number": number}


class Messages(Dialect):
    """Anthropic's Messages."""

    refusal = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    def read(self, body):
        last = body["messages"][-1]["content"]
        text = "".join(block["text"] for block in last if block["type"] == "text")
        results = [block["content"] for block in last if block["type"] == "tool_result"]
        sources = [block["source"] for block in last if block["type"] == "image"]
        images = [source.get("media_type") or source["url"] for source in sources]
        return text, images, results

    def message(self, blocks, reason):
        yield {
            "type": "message_start",
            "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "content": [],
                "model": self.body["model"], "stop_reason": None, "stop_sequence": None,
                "usage": {
                    "input_tokens": 10, "cache_creation_input_tokens": 2,
                    "cache_read_input_tokens": 4, "output_tokens": 1,
                },
            },
        }
        yield {"type": "ping"}
        for index, (start, deltas) in enumerate(blocks):
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {
            "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 7},
        }
        yield {"type": "message_stop"}

    def says(self, pieces):
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        return self.message([({"type": "text", "text": ""}, deltas)], "end_turn")

    def asks(self):
        blocks = []
        for name, function, arguments in self.calls:
            start = {"type": "tool_use", "id": name, "name": function, "input": {}}
            pieces = [arguments[:4], arguments[4:]] if len(arguments) > 2 else []
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            blocks.append((start, deltas))
        return self.message(blocks, "tool_use")


class Responses(Dialect):
    """OpenAI's Responses."""

    refusal = {"error": {"type": "server_error", "code": "server_error", "message": "Busy"}}

    def read(self, body):
        results = []
        for item in reversed(body["input"]):
            if item["type"] == "message":
                break
            if item["type"] == "function_call_output":
                results.insert(0, item["output"])
        last = body["input"][-1].get("content", "")
        if isinstance(last, str):
            return last, [], results
        text = "".join(part["text"] for part in last if part["type"] == "input_text")
        urls = [part["image_url"] for part in last if part["type"] == "input_image"]
        return text, [url[5:].split(";")[0] if "data:" in url else url for url in urls], results

    def response(self, status, output):
        usage = {
            "input_tokens": 16, "output_tokens": 7, "total_tokens": 23,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "status": status,
            "model": self.body["model"], "output": output, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
            "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0,
            "usage": usage if status == "completed" else None,
        }

    def stream(self, items):
        yield {"type": "response.created", "response": self.response("in_progress", [])}
        output = []
        for index, (item, events) in enumerate(items):
            empty = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
            added = item | empty | {"status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": index, "item": added}
            for event in events:
                yield event | {"output_index": index, "item_id": item["id"]}
            output.append(item)
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": self.response("completed", output)}

    def says(self, pieces):
        part = {"type": "output_text", "text": "".join(pieces), "annotations": []}
        item = {
            "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [part],
        }
        place = {"content_index": 0}
        events = [{"type": "response.content_part.added", "part": part | {"text": ""}} | place]
        for piece in pieces:
            events.append(
                {"type": "response.output_text.delta", "delta": piece, "logprobs": []} | place)
        events.append({"type": "response.output_text.done", "text": part["text"], "logprobs": []}
                      | place)
        events.append({"type": "response.content_part.done", "part": part} | place)
        return self.numbered(self.stream([(item, events)]))

    def asks(self):
        items = []
        for name, function, arguments in self.calls:
            item = {
                "id": f"fc_{name}", "type": "function_call", "call_id": name, "name": function,
                "arguments": arguments, "status": "completed",
            }
            kind = "response.function_call_arguments"
            events = [{"type": f"{kind}.delta", "delta": arguments}]
            events.append({"type": f"{kind}.done", "arguments": arguments, "name": function})
            items.append((item, events))
        return self.numbered(self.stream(items))


class Chat(Dialect):
    """OpenAI's chat completions, with interleaved calls."""

    done = True
    refusal = {"error": {"type": "server_error", "message": "Busy"}}

    def read(self, body):
        results = []
        for message in reversed(body["messages"]):
            if message["role"] != "tool":
                break
            results.insert(0, message["content"])
        last = body["messages"][-1]["content"]
        if isinstance(last, str):
            return last, [], results
        text = "".join(part["text"] for part in last if part["type"] == "text")
        urls = [part["image_url"]["url"] for part in last if part["type"] == "image_url"]
        return text, [url[5:].split(";")[0] if "data:" in url else url for url in urls], results

    def chunks(self, deltas, reason):
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1,
                "model": self.body["model"]}
        for delta in [{"role": "assistant", "content": ""}, *deltas]:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield head | {"choices": [choice]}
        yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        usage = {"prompt_tokens": 16, "completion_tokens": 7, "total_tokens": 23,
                 "prompt_tokens_details": {"cached_tokens": 4}}
        yield head | {"choices": [], "usage": usage}

    def says(self, pieces):
        return self.chunks([{"content": piece} for piece in pieces], "stop")

    def asks(self):
        deltas = []
        for index, (name, function, _) in enumerate(self.calls):
            call = {"index": index, "id": name, "type": "function",
                    "function": {"name": function, "arguments": ""}}
            deltas.append({"tool_calls": [call]})
        for index, (_, _, arguments) in enumerate(self.calls):
            call = {"index": index, "function": {"arguments": arguments}}
            deltas.append({"tool_calls": [call]})
        return self.chunks(deltas, "tool_calls")


DIALECTS = {
    "/v1/messages": Messages, "/v1/responses": Responses, "/v1/chat/completions": Chat,
}
