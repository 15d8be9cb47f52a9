"""The page over https and on a bad network, and parley.js in a page of another site."""

import contextlib
import http.server
import itertools
import threading

import pytest
from cutting_proxy import CuttingProxy
from parley_server import HANG_GUARD, ParleyServer, free_port
from playwright.sync_api import expect
from secure_server import SecureServer
from talking import RECORD_LOUDSPEAKER, agent_turn, state, type_message, user_turn

# A page of another site, with a button that talks and a button that types.
OTHER_PAGE = """<!doctype html><title>Another site</title><p id="state">loading</p><p id="log"></p>
<button id="talk">Talk</button><button id="type">Type</button>
<script type="module">
import { ParleySession } from "http://127.0.0.1:PORT/parley.js";
const [state, log] = ["state", "log"].map((id) => document.getElementById(id));
const session = new ParleySession({ token: async () => "TOKEN", tools: {} });
session.on("activity", (activity) => { state.textContent = activity; });
session.on("entry", () => { log.textContent = session.transcript.toText(); });
try {
  await session.open();
  state.textContent = "open";
} catch (error) {
  state.textContent = error.code;
}
talk.onclick = () => session.talk();
document.getElementById("type").onclick = () => session.say("This page is new");
</script>"""


@contextlib.contextmanager
def other_site(port, server, token):
    """Serves the page of another site, which uses the server."""
    body = OTHER_PAGE.replace("PORT", str(server.port)).replace("TOKEN", token).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://localhost:{port}/"
        site.shutdown()


@pytest.mark.parametrize(("token", "is_right"), [("sk-right", True), ("sk-wrong", False)])
def test_a_page_of_another_site_talks_with_parley_js(browser, token, is_right):
    port = free_port()
    with (
        ParleyServer(
            PARLEY_ALLOWED_ORIGINS=f"http://localhost:{port}", PARLEY_API_KEY="sk-right",
        ) as server,
        other_site(port, server, token) as address,
        browser.new_context(permissions=["microphone"]) as context,
    ):
        context.set_default_timeout(1000 * HANG_GUARD)
        page = context.new_page()
        page.goto(address)
        if not is_right:
            expect(page.locator("#state")).to_have_text("credential_refused")
            return
        expect(page.locator("#state")).to_have_text("open")
        page.get_by_role("button", name="Type").click()
        expect(page.locator("#log")).to_contain_text("Agent: You said: This page is new.")
        page.get_by_role("button", name="Talk").click()
        expect(page.locator("#log")).to_contain_text("forward")


def test_the_page_works_over_https(open_page, tmp_path):
    with SecureServer(tmp_path) as server:
        page = open_page(
            server=server, address=f"https://localhost:{server.port}/", ignore_https_errors=True)
        page.get_by_role("button", name="Start talking").click()
        expect(user_turn(page)).to_contain_text("forward")
        expect(page.locator("#details")).to_have_text("Opus")
        page.context.close()


def test_the_page_says_that_voice_needs_https(open_page, parley):
    """A name that is not this machine's, over http: no microphone, no live sound, but text."""
    with ParleyServer(PARLEY_ALLOWED_HOSTS="voice.test,127.0.0.1") as server:
        page = open_page(
            server=server, waits=False, is_refused=True,
            script="Object.defineProperty(window, 'isSecureContext', { value: false });")
        state(page, "Ready")
        page.get_by_role("button", name="Start talking").click()
        expect(page.get_by_role("alert")).to_contain_text("only on pages over https")
        type_message(page, "This page is new")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
        state(page, "Ready")
        page.context.close()


@pytest.mark.long
def test_a_conversation_survives_a_network_that_breaks_again_and_again(open_page, parley):
    # The page talks for two minutes. A cut comes about every ten seconds, wherever it falls: in the
    # user's words, in a reply, in silence.
    cuts = itertools.islice(itertools.cycle([17_000, 31_000, 23_000, 41_000]), 10)
    with CuttingProxy(parley.port, cuts=list(cuts)) as proxy:
        page = open_page(server=proxy, script=RECORD_LOUDSPEAKER, is_refused=True)
        page.get_by_role("button", name="Start talking").click()
        page.wait_for_function("""() => document.querySelectorAll(".turn.assistant").length >= 16""")
        page.get_by_role("button", name="Stop talking").click()
        state(page, "Ready")
        replies = page.locator(".turn.assistant").all_inner_texts()
        assert proxy.connections >= 4, proxy.connections
        assert all("You said" in reply for reply in replies), replies
        expect(page.get_by_text("The server has lost the conversation")).to_have_count(0)
        type_message(page, "This page is new")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
