"""Images from users. The server fetches none, whatever their URL. An image that no model accepts is
refused with a clear error, and the session continues."""

import base64
import json
import socket
import threading

import pytest
import websockets.sync.client
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from scripted_providers import ScriptedProvider
from test_hostile_peers import MIB

PIXEL = "iVBORw0KGgo="


class Trap:
    """Counts the connections to a port."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                self.listener.accept()[0].close()
            except OSError:
                return
            self.connections += 1


@pytest.fixture(scope="module")
def trap():
    trap = Trap()
    yield trap
    # Checks that the trap itself works.
    socket.create_connection(("127.0.0.1", trap.port)).recv(1)
    trap.listener.close()
    assert trap.connections <= 1, "the server has connected to an image's host"


@pytest.fixture(scope="module")
def provider():
    with ScriptedProvider() as running:
        yield running


@pytest.fixture(scope="module")
def server(provider):
    """A server with a model that accepts images."""
    with ParleyServer("--llm", provider.url, "--llm-vision", "true") as running:
        yield running


class Session:
    def __init__(self, server):
        self.opening = websockets.sync.client.connect(
            server.realtime_url + "?model=m", max_size=None, compression=None, **PATIENT_WEBSOCKET)

    def __enter__(self):
        self.connection = self.opening.__enter__()
        self.send("session.update", session={"type": "realtime", "output_modalities": ["text"]})
        return self

    def __exit__(self, *_):
        self.opening.__exit__(None, None, None)

    def send(self, kind, **fields):
        self.connection.send(json.dumps({"type": kind, **fields}))

    def until(self, *kinds):
        while (event := json.loads(self.connection.recv(HANG_GUARD)))["type"] not in kinds:
            pass
        return event

    def show(self, url):
        """Sends an image: returns the error, or None if it was accepted."""
        content = [
            {"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": url}]
        item = {"type": "message", "role": "user", "content": content}
        self.send("conversation.item.create", item=item)
        return self.until("conversation.item.done", "error").get("error")

    def reply(self):
        self.send("response.create")
        done = self.until("response.done")["response"]
        return done["status"], "".join(
            part["text"] for item in done["output"] for part in item["content"])


REFUSED = {
    "http": "http://127.0.0.1:{port}/a.png",
    "HTTPS in capitals": "HTTPS://127.0.0.1:{port}/a.png",
    "a file": "file:///etc/passwd",
    "a file without slashes": "file:/etc/passwd",
    "a path": "/etc/passwd",
    "JavaScript": "javascript:alert(1)",
    "gopher": "gopher://127.0.0.1:{port}/_GET",
    "ftp": "ftp://127.0.0.1:{port}/a.png",
    "blank before https": " https://127.0.0.1:{port}/a.png",
    "nothing": "",
    "no scheme": "127.0.0.1:{port}/a.png",
    "data without a type": "data:," + PIXEL,
    "data that is a page": "data:text/html;base64," + PIXEL,
    "data that is SVG": "data:image/svg+xml;base64," + PIXEL,
    "data that is no base64": "data:image/png;base64,%%%%",
    "data that is cut off": "data:image/png;base64," + PIXEL[:-2],
    "data with line breaks": "data:image/png;base64,iVBO\nRw0KGgo=",
    "data with a second type": "data:image/png;charset=x;base64," + PIXEL,
    "data of no bytes": "data:image/png;base64,",
    "data of 10 MB": "data:image/png;base64," + base64.b64encode(
        base64.b64decode(PIXEL) + bytes(10 * MIB)).decode(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_image_is_refused_by_name(server, trap, name):
    with Session(server) as session:
        error = session.show(REFUSED[name].replace("{port}", str(trap.port)))
        assert error and error["type"] == "invalid_request_error"
        assert error["param"] == "item.content[1].image_url"
        assert len(error["message"]) < 500
        assert session.show("data:image/png;base64," + PIXEL) is None
        assert session.reply()[0] == "completed"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "2130706433:{port}",
             "169.254.169.254", "user:pass@127.0.0.1:{port}", "0:{port}", "a\r\nHost: b"])
def test_an_https_url_is_passed_to_the_models_service_and_not_fetched(server, trap, host):
    url = f"https://{host.replace('{port}', str(trap.port))}/a.png"
    with Session(server) as session:
        assert session.show(url) is None
        status, text = session.reply()
        assert status == "completed" and url in text


def test_images_beyond_the_conversations_limit_are_dropped_oldest_first(provider):
    image = "data:image/png;base64," + base64.b64encode(
        base64.b64decode(PIXEL) + bytes(MIB // 2)).decode()
    with ParleyServer(
        "--llm", provider.url, "--llm-vision", "true",
        "--max-conversation-image-bytes", str(MIB),
    ) as server, Session(server) as session:
        deleted = 0
        for _ in range(12):
            session.send("conversation.item.create", item={
                "type": "message", "role": "user",
                "content": [{"type": "input_image", "image_url": image}]})
            while (kind := json.loads(session.connection.recv(HANG_GUARD))["type"]) != (
                "conversation.item.done"
            ):
                deleted += kind == "conversation.item.deleted"
                assert kind != "error"
        assert 8 <= deleted < 12
        assert session.reply()[0] == "completed"


def test_a_model_that_sees_nothing_refuses_every_image(parley, trap):
    with Session(parley) as session:
        for url in ("https://127.0.0.1/a.png", "data:image/png;base64," + PIXEL):
            error = session.show(url)
            assert error["code"] == "unsupported_content_type"
        session.send("conversation.item.create", item={
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]})
        assert session.reply()[0] == "completed"
