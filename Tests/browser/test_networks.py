"""The page over https and on a bad network, and parley.js in a page of another site: what it says where it
does not connect, in bundles, over a path that has died, and where it cannot be heard."""

import contextlib
import http.server
import itertools
import json
import shutil
import subprocess
import threading

import pytest
from cutting_proxy import CuttingProxy
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer, free_port
from playwright.sync_api import expect
from secure_server import SecureServer
from talking import (
    RECORD_EVENTS,
    RECORD_LOUDSPEAKER,
    agent_turn,
    state,
    type_message,
    user_turn,
)
from websockets.sync.client import connect

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
def site(files, port=0, **headers):
    """Serves files at another origin: type and bytes by path. Gives its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            kind, body = files.get(self.path, ("", b""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()


def other_site(port, server, token):
    """Serves the page of another site, which uses the server."""
    body = OTHER_PAGE.replace("PORT", str(server.port)).replace("TOKEN", token).encode()
    return site({"/": ("text/html", body)}, port)


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


# ---- Why it does not connect ----

# Opens a session, and talks. Returns what fails, if anything does.
ATTEMPT = """async ([module, options]) => {
    const { ParleySession } = await import(module);
    const session = new ParleySession(options);
    try {
        await session.open();
        await session.talk();
        return null;
    } catch (error) {
        return [error.code, error.message];
    } finally {
        session.close();
    }
}"""
EMPTY = {"/": ("text/html", b"<!doctype html><title>Another site</title>")}


def attempt(browser, address, server, **options):
    """What a page at an address says of a session with the server: code and message, or None."""
    with browser.new_context(permissions=["microphone"], ignore_https_errors=True) as context:
        context.set_default_timeout(1000 * HANG_GUARD)
        page = context.new_page()
        page.goto(address)
        given = {"url": f"http://127.0.0.1:{server.port}/", **options}
        return page.evaluate(ATTEMPT, [f"http://127.0.0.1:{server.port}/parley.js", given])


def test_a_page_of_another_site_learns_that_the_server_is_full(browser):
    port = free_port()
    with (
        ParleyServer(
            PARLEY_ALLOWED_ORIGINS=f"http://localhost:{port}", PARLEY_MAX_SESSIONS="1",
        ) as server,
        site(EMPTY, port) as address,
        connect(server.realtime_url, **PATIENT_WEBSOCKET) as taken,
    ):
        assert json.loads(taken.recv(HANG_GUARD))["type"] == "session.created"
        assert attempt(browser, address, server)[0] == "server_full"


@pytest.mark.parametrize("token", ["", "sk-right"])
def test_a_page_of_another_site_learns_that_its_origin_is_refused(browser, token):
    with ParleyServer(PARLEY_API_KEY="sk-right") as server, site(EMPTY) as address:
        assert attempt(browser, address, server, token=token)[0] == "origin_refused"


def test_a_page_learns_that_a_proxy_passes_no_websocket_and_that_nothing_answers(browser, parley):
    """A site that answers like a server, except for the upgrade."""
    files = {path: ("application/json", b"{}") for path in ("/v1/models", "/readyz")}
    with site(files, Access_Control_Allow_Origin="*") as address:
        page = f"http://127.0.0.1:{parley.port}/healthz"
        assert attempt(browser, page, parley, url=address)[0] == "websocket_blocked"
    nowhere = f"http://127.0.0.1:{free_port()}/"
    assert attempt(browser, page, parley, url=nowhere)[0] == "network_lost"
    with site({}, Access_Control_Allow_Origin="*") as address:
        assert attempt(browser, page, parley, url=address)[0] == "no_server"


def test_a_page_over_https_learns_that_it_needs_wss(browser, parley, tmp_path):
    with SecureServer(tmp_path) as server:
        page = f"https://localhost:{server.port}/healthz"
        with browser.new_context(ignore_https_errors=True) as context:
            tab = context.new_page()
            tab.goto(page)
            code, message = tab.evaluate(ATTEMPT, ["/parley.js", {"url": "ws://voice.example/"}])
    assert code == "insecure_address" and "ws://voice.example" in message


@pytest.mark.parametrize("allowed", ["'self'", "'self' SERVER"])
def test_a_page_learns_which_directive_blocks_the_server(browser, parley, allowed):
    """Also where requests are allowed, and only the WebSocket is not."""
    server = f"http://127.0.0.1:{parley.port}"
    policy = f"connect-src {allowed.replace('SERVER', server)}"
    with site(EMPTY, Content_Security_Policy=policy) as address:
        code, message = attempt(browser, address, parley)
    assert code == "policy_blocked"
    assert "connect-src" in message and f"ws://127.0.0.1:{parley.port}" in message


def test_a_page_learns_which_file_is_missing_or_blocked(browser):
    port = free_port()
    with ParleyServer(PARLEY_ALLOWED_ORIGINS=f"http://localhost:{port}") as server:
        with site(EMPTY, port) as address:
            lost = attempt(browser, address, server, workletUrl="/assets/worklet.js")
        assert lost[0] == "file_lost" and f"{address}assets/worklet.js (404" in lost[1]
        # A server of single-page applications answers every path with its page.
        page = EMPTY | {"/worklet.js": EMPTY["/"]}
        with site(page, port) as address:
            lost = attempt(browser, address, server, workletUrl="/worklet.js")
        assert lost[0] == "file_lost" and "text/html" in lost[1]
        module = f"http://127.0.0.1:{server.port}"
        policy = f"script-src {module}/parley.js {module}/parley/ 'unsafe-eval' 'unsafe-inline'"
        page["/worklet.js"] = ("text/javascript", b"")
        with site(page, port, Content_Security_Policy=policy) as address:
            blocked = attempt(browser, address, server, workletUrl="/worklet.js")
        assert blocked[0] == "policy_blocked" and "script-src" in blocked[1]


# ---- Bundles ----

BUNDLED = """import { ParleySession } from "parley-client";
window.ParleySession = ParleySession;
document.title = "Bundled";
"""


WEBPACK = pytest.param("webpack", marks=pytest.mark.skipif(
    shutil.which("webpack") is None, reason="webpack is not installed"))


@pytest.mark.parametrize("form", ["esm", "iife", "rollup", WEBPACK])
def test_a_bundle_talks(browser, tmp_path, form):
    """The recipes of js/README.md."""
    bundler = shutil.which(form if form in ("rollup", "webpack") else "esbuild")
    assert bundler, "no bundler: run scripts/setup-apt.sh test"
    assert subprocess.run([ROOT / "scripts/js.sh"], check=True, capture_output=True)
    package = tmp_path / "node_modules/parley-client"
    shutil.copytree(ROOT / ".build/js/package", package)
    source = tmp_path / "app.js"
    source.write_text(BUNDLED)
    if form == "rollup":
        # Without its plugin for node_modules.
        source.write_text(
            BUNDLED.replace('"parley-client"', '"./node_modules/parley-client/parley.js"'))
        command = [bundler, "app.js", "--format=es", "--dir=dist", "--silent"]
    elif form == "webpack":
        command = [bundler, "./app.js", "--mode=production", "--output-filename=app.js",
                   "--stats=errors-only"]
    else:
        command = [bundler, "app.js", "--bundle", f"--format={form}", "--outdir=dist",
                   "--log-level=error"]
    subprocess.run(command, cwd=tmp_path, check=True)
    kind = "text/javascript"
    files = {
        "/": ("text/html", b"<!doctype html><script type=module src=/app.js></script>"),
        "/app.js": (kind, (tmp_path / "dist/app.js").read_bytes()),
        "/worklet.js": (kind, (package / "parley/worklet.js").read_bytes()),
    }
    if form == "webpack":
        # It has named and shortened the file itself.
        del files["/worklet.js"]
        files |= {f"/{path.name}": (kind, path.read_bytes()) for path in tmp_path.glob("dist/*.js")}
    port = free_port()
    with (
        ParleyServer(PARLEY_ALLOWED_ORIGINS=f"http://localhost:{port}") as server,
        site(files, port) as address,
        browser.new_context(permissions=["microphone"]) as context,
    ):
        context.set_default_timeout(1000 * HANG_GUARD)
        page = context.new_page()
        page.goto(address)
        page.wait_for_function("() => document.title === 'Bundled'")
        options = {"url": f"http://127.0.0.1:{server.port}/"}
        if form == "iife":
            options["workletUrl"] = "/worklet.js"
        said = page.evaluate("""async (options) => {
            const session = new ParleySession(options);
            const heard = new Promise((resolve) => session.on("entry", ({ text, role }) => {
                if (role === "user" && text.includes("forward")) resolve(text);
            }));
            await session.open();
            await session.talk();
            return heard;
        }""", options)
        assert "forward" in said


# ---- The page itself ----


def test_a_path_that_has_died_is_noticed(open_page, parley):
    """Both sides keep an open socket, and nothing passes. The rest of the reply that was not heard is no
    answer to what was typed meanwhile."""
    with CuttingProxy(parley.port) as proxy:
        page = open_page(server=proxy)
        type_message(page, "This page is new")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
        expect(agent_turn(page)).to_have_attribute("data-state", "done")
        before = proxy.connections
        proxy.freeze()
        type_message(page, "Thanks")
        expect(agent_turn(page)).to_contain_text("You are welcome.")
        assert proxy.connections > before
        page.context.close()


def test_what_is_typed_meanwhile_goes_into_another_session(browser):
    """The server starts again without its sessions."""
    port = free_port()
    with browser.new_context() as context:
        context.set_default_timeout(1000 * HANG_GUARD)
        page = context.new_page()
        with ParleyServer(port=port):
            page.goto(f"http://127.0.0.1:{port}/healthz")
            page.evaluate("""async () => {
                const { ParleySession } = await import("/parley.js");
                window.session = new ParleySession({ speaks: false });
                await session.open();
            }""")
        page.wait_for_function("() => session.link === 'lost'")
        page.evaluate("session.say('This page is new')")
        with ParleyServer(port=port):
            page.wait_for_function("""() => session.transcript.entries.some(({ text, state }) =>
                text.includes("You said: This page is new") && state === "done")""")
        states = page.evaluate("session.transcript.entries.map(({ role, state }) => [role, state])")
        assert states == [["user", "done"], ["assistant", "done"]]


# What pauses a reply, as the system does. `element` is the page's own.
PAUSES = {
    "pause": "element.pause()",
    "mute": "element.muted = true",
    "suspend": "contexts.at(-1).suspend()",
}
KEEP_SOUND = """
    window.contexts = [];
    window.AudioContext = class extends AudioContext {
        constructor(...options) {
            super(...options);
            window.contexts.push(this);
        }
        resume() {
            return window.refuses ? Promise.reject(new DOMException("", "NotAllowedError"))
                : super.resume();
        }
    };
    const { play } = HTMLMediaElement.prototype;
    HTMLMediaElement.prototype.play = function () {
        window.element = this;
        return window.refuses ? Promise.reject(new DOMException("", "NotAllowedError"))
            : play.call(this);
    };
"""


@pytest.mark.parametrize("name", PAUSES)
def test_a_reply_that_cannot_be_heard_waits(open_page, name):
    page = open_page(script=KEEP_SOUND + RECORD_EVENTS)
    type_message(page, "Please count to 100")
    played = """() => Math.max(0, ...sent.filter(
        ({ type }) => type === "output_audio_buffer.played").map(({ audio_end_ms: ms }) => ms))"""
    page.wait_for_function(f"() => ({played})() > 300")
    page.evaluate("window.refuses = true")
    page.evaluate(PAUSES[name])
    if name == "mute":
        # The first time it is undone.
        page.wait_for_function("() => !element.muted")
        page.evaluate(PAUSES[name])
    expect(page.get_by_role("alert")).to_contain_text("The sound is paused.")
    # The page says again and again that no more was played.
    page.wait_for_function("""() => {
        const reports = sent.filter(({ type }) => type === "output_audio_buffer.played").slice(-5);
        return reports.length === 5 && new Set(reports.map(({ audio_end_ms: ms }) => ms)).size === 1;
    }""")
    held = page.evaluate(played)
    page.evaluate("window.refuses = false")
    page.locator("h1, header").first.click()
    page.wait_for_function(f"() => ({played})() > {held}")
    expect(page.get_by_role("alert")).to_be_hidden()
    page.context.close()


def test_the_page_works_over_https(open_page, tmp_path):
    with SecureServer(tmp_path) as server:
        page = open_page(
            server=server, address=f"https://localhost:{server.port}/", ignore_https_errors=True)
        page.get_by_role("button", name="Start talking").click()
        expect(user_turn(page)).to_contain_text("forward")
        expect(page.locator("#fact-sound")).to_contain_text("Opus")
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
        page.get_by_role("button", name="Microphone off").click()
        state(page, "Ready")
        replies = page.locator(".turn.assistant").all_inner_texts()
        assert proxy.connections >= 4, proxy.connections
        assert all("You said" in reply for reply in replies), replies
        expect(page.get_by_text("The server has lost the conversation")).to_have_count(0)
        type_message(page, "This page is new")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
