"""A chat-completions server that streams scripted answers and can fail on request.

The last user message decides the answer. `weather` calls a function, once for each city in the
message. `announce the weather in CITY` says a sentence before the call. `call NAME ARGUMENTS and NAME ARGUMENTS` makes these calls. `story` is long and slow and
never ends, so that it can be interrupted at any time. `number N` says N different words slowly, and
`number N halts at M` waits behind the first M for `second_half`.
`limit` stops at the token limit, `die` cuts the stream off, `refuse` answers 500, and `escapes`
contains terminal control characters. Any other message is repeated. A conversation that begins with
`halfway` always gets HALVES, with a wait between the two, and one that begins with `write TEXT` the rest of
that line."""

import http.server
import itertools
import json
import re
import threading
import time

from parley_server import HANG_GUARD

HALVES = ("The first half is said at once, as it should be. ", "The second half came later.")
ESCAPES = ["Look: \x1b", "]0;pwned\x07\x1b", "[2J\x9b31m\u202e", "\nparley: forged\r\x7f\tend"]
STORY = "Once upon a time there was a server that never slept. " * 12


class ScriptedModel:
    """Listens from `with` to its end; `requests` are the requests so far.

    `second_half` lets an answer that has halted continue, and `finished` is set when one in halves has
    been sent."""

    def __init__(self):
        self.requests = []
        self.second_half = threading.Event()
        self.finished = threading.Event()
        self.over = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True

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

    def handler(self):
        requests, second_half, finished = self.requests, self.second_half, self.finished
        over = self.over

        def halves():
            yield from said(re.findall(r"\S+\s*", HALVES[0]))
            second_half.wait(HANG_GUARD)
            yield from said(re.findall(r"\S+\s*", HALVES[1]))

        def counted(text):
            words = said(numbered(int(text.split()[1])))
            halt = int(text.split()[-1]) if "halts" in text else len(words)
            yield from words[:halt]
            if words[halt:]:
                second_half.wait(HANG_GUARD)
            yield from words[halt:]

        def story():
            yield from said(STORY.split(" "), " ")
            over.wait(HANG_GUARD)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                requests.append({"path": self.path, "headers": self.headers, "body": body})
                try:
                    self.answer(body)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def answer(self, body):
                last = body["messages"][-1]
                text = last["content"] if isinstance(last["content"], str) else ""
                if "halfway" in str(body["messages"][0]["content"]):
                    self.stream(halves())
                    finished.set()
                elif str(body["messages"][0]["content"]).startswith("write "):
                    line, _, _ = body["messages"][0]["content"].partition("\n")
                    self.stream(said([line.removeprefix("write ")]))
                elif last["role"] == "tool":
                    self.stream(said(["The ", "answer ", "is ", text, "."]))
                elif text.startswith("call "):
                    self.stream(all_called(text), "tool_calls")
                elif "refuse" in text:
                    self.refuse()
                elif text.startswith("announce ") and body.get("tools"):
                    arguments = json.dumps({"city": text.split()[-1]})
                    words = said(["One moment, ", "please. ", "I will look that up ", "for you."])
                    self.stream([*words, *called("get_weather", [arguments])], "tool_calls")
                elif "weather" in text and body.get("tools") and body.get("tool_choice") != "none":
                    cities = re.findall(r"[A-Z]\w+", text[text.index("weather") :]) or ["Oslo"]
                    arguments = [json.dumps({"city": city}, separators=",:") for city in cities]
                    self.stream(called("get_weather", arguments), "tool_calls")
                elif "limit" in text:
                    self.stream(said(["As ", "far ", "as "]), "length")
                elif "die" in text:
                    self.stream(said(["This ", "breaks "]), breaks=True)
                elif "escapes" in text:
                    self.stream(said(ESCAPES))
                elif text.startswith("number "):
                    self.stream(counted(text), pause=0.01)
                elif "story" in text:
                    self.stream(story(), pause=0.02)
                else:
                    self.stream(said(["You ", "said: ", text]))

            def refuse(self):
                body = json.dumps({"error": {"message": "out of order", "type": "server_error"}})
                self.send_response(500)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def stream(self, deltas, reason="stop", pause=0.0, breaks=False):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for delta in itertools.chain([{"role": "assistant", "content": ""}], deltas):
                    self.send_event({"choices": [{"index": 0, "delta": delta}]})
                    time.sleep(pause)
                if breaks:
                    self.close_connection = True
                    return
                end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
                self.send_event(end)
                usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
                self.send_event({"choices": [], "usage": usage})
                self.send_chunk(b"data: [DONE]\n\n")
                self.send_chunk(b"")

            def send_event(self, event):
                event = {"id": "c1", "object": "chat.completion.chunk", "model": "m"} | event
                self.send_chunk(f"data: {json.dumps(event)}\n\n".encode())

            def send_chunk(self, data):
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        return Handler


def said(pieces, separator=""):
    """Deltas of a text."""
    return [{"content": piece + separator} for piece in pieces]


def numbered(count):
    """The words of `number COUNT`."""
    return [f"w{index} " for index in range(count)]


def called(name, arguments):
    """Deltas of calls of a function, one after another; the arguments of each come in pieces."""
    deltas = []
    for index, text in enumerate(arguments):
        first = {"index": index, "id": f"call_{index + 1}", "type": "function"}
        deltas.append({"tool_calls": [first | {"function": {"name": name, "arguments": ""}}]})
        for piece in re.findall(r".{1,5}", text):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return deltas


def all_called(text):
    """Deltas of the calls that a text requests: `call NAME ARGUMENTS and NAME ARGUMENTS`."""
    deltas = []
    for index, call in enumerate(text.removeprefix("call ").split(" and ")):
        name, arguments = call.split(" ", 1)
        first = {"index": index, "id": f"call_{name}_{index}", "type": "function"}
        deltas.append({"tool_calls": [first | {"function": {"name": name, "arguments": ""}}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
    return deltas
