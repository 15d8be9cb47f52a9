"""The first minute on the page: questions to try, a tool call with its result, a count that is stopped, and
the line about a model of this machine."""

import http.server
import json
import threading

import pytest
from parley_server import ParleyServer
from playwright.sync_api import expect
from talking import agent_turn, apply, state, type_message

CALL = ".aside.call"


@pytest.fixture(scope="module")
def guide():
    with ParleyServer("--demo-agent", "guide", PARLEY_WARM_MODELS="true") as server:
        yield server


def test_a_question_about_the_server_shows_the_call_and_the_answer(open_page, guide):
    page = open_page(server=guide)
    apply(page, speaks=False)
    type_message(page, "how many sessions do you have")
    expect(page.locator(f"{CALL} summary")).to_have_text(
        "Function call: count_sessions() → sessions open: 1")
    # Those who write functions see the values as they are, after a click.
    raw = page.get_by_text('count_sessions({}) → {"sessions_open":1}')
    expect(raw).to_be_hidden()
    page.locator(f"{CALL} summary").click()
    expect(raw).to_be_visible()
    expect(agent_turn(page)).to_contain_text("One session is open. It is yours.")
    type_message(page, "How long did that take?")
    expect(page.locator(CALL).last).to_contain_text("read_latency() → transcript: –, first token: ")
    expect(agent_turn(page)).to_contain_text("Your last message was typed.")


def test_the_questions_to_try_are_answered(open_page, guide):
    page = open_page(server=guide)
    apply(page, speaks=False)
    questions = page.locator(".try").all_inner_texts()
    assert questions == ["What is Parley?", "How many sessions are open?", "Count to 20"]
    page.get_by_role("button", name="How many sessions are open?").click()
    expect(agent_turn(page)).to_contain_text("One session is open.")
    expect(page.locator(".try").first).to_be_hidden()


def test_the_time_is_that_of_the_user(open_page, guide):
    page = open_page(server=guide, timezone_id="Asia/Kolkata")
    apply(page, speaks=False)
    type_message(page, "What time is it?")
    expect(page.locator(CALL)).to_contain_text("get_time() → It is")
    answer = page.locator(CALL).inner_text().split("→ ")[1]
    expect(agent_turn(page).locator(".text")).to_have_text(answer)


def test_a_spoken_count_is_stopped(open_page, guide):
    page = open_page(server=guide)
    # A minute of numbers, so that a slow machine stops it as well.
    type_message(page, "Count to a hundred, please.")
    expect(agent_turn(page)).to_contain_text("1, 2, 3,")
    page.get_by_role("button", name="Stop the reply").click()
    state(page, "Ready")
    expect(agent_turn(page)).not_to_contain_text("100")


def test_a_server_that_comes_back_with_another_agent_is_talked_to(open_page, guide):
    """As a user does who restarts the server with a model: the page offers no tools that are gone."""
    with ParleyServer("--demo-agent", "guide") as first:
        page = open_page(server=first, is_refused=True)
        apply(page, speaks=False)
        port = first.port
    with ParleyServer(port=port):
        state(page, "Ready")
        type_message(page, "This server is new")
        expect(agent_turn(page)).to_contain_text("You said: This server is new")


class Models(http.server.BaseHTTPRequestHandler):
    """A model server that has one model."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "small"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def brain():
    """The base URL of a model of this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_a_model_of_this_machine_is_named(open_page, brain):
    line = "#local-model"
    with ParleyServer("--demo-agent", "guide", "--local-model-url", brain) as server:
        page = open_page(server=server)
        expect(page.locator(line)).to_have_text(
            "A model runs on this machine. To talk to small: "
            f'make run ARGS="--llm {brain} --model small"')
        page.close()
    with ParleyServer("--llm", brain, "--local-model-url", brain) as server:
        page = open_page(server=server)
        expect(page.locator(line)).to_have_text("small answers, from this machine.")
        page.close()
    with ParleyServer("--local-model-url", "http://127.0.0.1:1/v1") as server:
        page = open_page(server=server)
        expect(page.locator(line)).to_be_hidden()
        page.close()
