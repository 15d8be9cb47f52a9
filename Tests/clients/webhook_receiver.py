"""A receiver of webhooks, which checks each with the library of Standard Webhooks."""

import http.server
import json
import threading

from standardwebhooks.webhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class WebhookReceiver:
    """Takes events on a port; `events` has them as (id, body), `attempts` the ids of all requests.
    While `status` is not 200, it is the answer, with `headers` and `body`, and the event is not taken. While `gate`
    is cleared, no request is answered."""

    def __init__(self, port=0):
        self.status = 200
        self.headers = {}
        self.body = b""
        self.secret = SECRET
        self.gate = threading.Event()
        self.gate.set()
        self.events = []
        self.attempts = []
        self.changed = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["content-length"]))
                # It raises where the signature or the time is wrong.
                Webhook(receiver.secret).verify(body, dict(self.headers))
                with receiver.changed:
                    status = receiver.status
                    receiver.attempts.append(self.headers["webhook-id"])
                    if status == 200:
                        receiver.events.append((self.headers["webhook-id"], json.loads(body)))
                    receiver.changed.notify_all()
                receiver.gate.wait()
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(receiver.body)))
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True

    @property
    def port(self):
        return self.server.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hooks"

    def types(self):
        return [body["type"] for _, body in self.events]

    def wait(self, condition, timeout):
        with self.changed:
            assert self.changed.wait_for(condition, timeout)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
