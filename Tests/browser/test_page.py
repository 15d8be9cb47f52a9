"""The web page as a user operates it: typing, the button, the space key, hands-free."""

import re

from cutting_proxy import CuttingProxy
from parley_server import HANG_GUARD, ParleyServer
from playwright.sync_api import expect

# The recording is 2.8 s long and repeats: a stretch of twice that contains all its words in
# sequence.
ENOUGH_MS = 5600


def watch_sent_audio(page):
    """Makes the page set a mark when it has sent enough audio of the microphone."""
    page.evaluate("""(enough) => {
        let sent = 0;
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (text) {
            // 24 kHz samples of two bytes, in base64.
            sent += (JSON.parse(text).audio ?? "").length * 3 / 4 / 48;
            if (sent >= enough) document.body.dataset.hasListened = "";
            return send.call(this, text);
        };
    }""", ENOUGH_MS)


def wait_for_sent_audio(page):
    page.locator("body[data-has-listened]").wait_for()


def user_turn(page):
    return page.locator(".turn.user").last


def agent_turn(page):
    return page.locator(".turn.agent").last


def test_a_typed_message_is_answered(page):
    page.get_by_label("Message").fill("This page is new")
    page.keyboard.press("Enter")
    expect(user_turn(page)).to_contain_text("This page is new")
    expect(agent_turn(page)).to_contain_text("You said: This page is new")
    expect(page.get_by_label("Message")).to_have_value("")


def test_holding_the_button_is_a_spoken_turn(page, screenshot):
    page.get_by_label("Message").fill("What is Parley?")
    page.get_by_role("button", name="Send").click()
    expect(agent_turn(page)).to_contain_text("voice session server")
    watch_sent_audio(page)
    button = page.get_by_role("button", name="Hold to speak")
    button.hover()
    page.mouse.down()
    expect(page.get_by_role("button", name="Listening…")).to_have_attribute("aria-pressed", "true")
    wait_for_sent_audio(page)
    page.mouse.up()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(user_turn(page)).to_contain_text("forward")
    expect(agent_turn(page)).to_contain_text("forward")
    expect(page.get_by_text("first sound after").last).to_be_visible()
    page.screenshot(path=screenshot)


def test_the_space_key_holds_the_button(page):
    watch_sent_audio(page)
    page.get_by_role("log").focus()
    page.keyboard.down("Space")
    wait_for_sent_audio(page)
    page.keyboard.up("Space")
    expect(user_turn(page)).to_contain_text("forward")


def test_space_is_a_letter_in_the_message(page):
    page.get_by_label("Message").press_sequentially("a b")
    expect(page.get_by_label("Message")).to_have_value("a b")
    expect(page.get_by_role("button", name="Hold to speak")).to_be_visible()


def test_a_short_press_is_no_turn(page):
    # Both ends of the press in one step, so that no sound fits between them, however late a click
    # would come.
    page.get_by_role("button", name="Hold to speak").evaluate("""(button) => {
        button.setPointerCapture = () => {};
        for (const type of ["pointerdown", "pointerup"])
            button.dispatchEvent(new PointerEvent(type, { bubbles: true }));
    }""")
    expect(page.get_by_role("alert")).to_contain_text("Hold the button while you speak")
    expect(page.locator(".turn")).to_have_count(0)


def test_hands_free_needs_no_button(page):
    page.get_by_label("Hands-free").check()
    expect(user_turn(page)).to_contain_text("forward")
    page.get_by_label("Hands-free").uncheck()
    expect(page.get_by_role("button", name="Hold to speak")).to_be_visible()


def test_a_reply_can_be_stopped(page):
    page.get_by_label("Message").fill("Please count to 100")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop the reply").click()
    expect(page.get_by_role("button", name="Stop the reply")).to_be_hidden()
    page.get_by_label("Message").fill("Goodbye")
    page.keyboard.press("Enter")
    expect(agent_turn(page)).to_contain_text("Goodbye!")


def test_speaking_over_a_reply_interrupts_it(page):
    # Records the position that the page reports as heard, and the playback that it stops before its
    # end.
    page.evaluate("""() => {
        window.stoppedPieces = 0;
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (text) {
            const event = JSON.parse(text);
            if (event.audio_end_ms > 1500) document.body.dataset.hasHeard = event.item_id;
            return send.call(this, text);
        };
        const { stop } = AudioBufferSourceNode.prototype;
        AudioBufferSourceNode.prototype.stop = function (...when) {
            window.stoppedPieces += 1;
            return stop.apply(this, when);
        };
    }""")
    page.get_by_label("Message").fill("Please count to 100")
    page.keyboard.press("Enter")
    reply = page.locator(".turn.agent").first
    expect(reply).to_contain_text("100")
    page.locator("body[data-has-heard]").wait_for()
    whole = reply.locator(".text").inner_text()
    assert page.evaluate("window.stoppedPieces") == 0
    # From now on the recording speaks over the reply, which would otherwise last a minute.
    page.get_by_label("Hands-free").check()
    expect(reply.locator(".text")).to_have_text(re.compile(r" …$"))
    assert page.evaluate("window.stoppedPieces") > 0
    heard = reply.locator(".text").inner_text().removesuffix(" …")
    assert 0 < len(heard) < len(whole) and whole.startswith(heard)
    expect(user_turn(page)).to_contain_text("forward")
    page.get_by_label("Hands-free").uncheck()


def test_replies_can_be_silent(page):
    page.get_by_label("Speak replies").uncheck()
    page.get_by_label("Message").fill("Thanks")
    page.keyboard.press("Enter")
    expect(agent_turn(page)).to_contain_text("You are welcome.")
    expect(page.get_by_text("first words after").last).to_be_visible()


def watch_playback(page):
    """Makes the page keep how many milliseconds of audio it has begun to play, and how many pieces it
    has stopped."""
    page.evaluate("""() => {
        window.playedMs = 0;
        window.stoppedPieces = 0;
        const { start, stop } = AudioBufferSourceNode.prototype;
        AudioBufferSourceNode.prototype.start = function (...when) {
            window.playedMs += Math.round(this.buffer.duration * 1000);
            return start.apply(this, when);
        };
        AudioBufferSourceNode.prototype.stop = function (...when) {
            window.stoppedPieces += 1;
            return stop.apply(this, when);
        };
    }""")


def hear_a_count(page):
    """Asks for a spoken reply. Returns its text, and the length of the audio that was played, once it
    is over."""
    watch_playback(page)
    page.get_by_label("Message").fill("Please count to 8")
    page.keyboard.press("Enter")
    stop = page.get_by_role("button", name="Stop the reply")
    expect(stop).to_be_visible()
    yield
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    expect(stop).to_be_hidden()
    expect(page.locator(".turn.agent")).to_have_count(1)
    assert page.evaluate("window.stoppedPieces") == 0
    yield agent_turn(page).locator(".text").inner_text(), page.evaluate("window.playedMs")


def test_a_reply_goes_on_after_a_lost_connection(browser, page, parley):
    listening = hear_a_count(page)
    next(listening)
    expected = next(listening)
    # 20 ms of audio take about 1,500 bytes: the network is down after a second of the reply.
    with CuttingProxy(parley.port, cuts=[75_000], stays_closed=True) as proxy:
        context = browser.new_context()
        context.set_default_timeout(1000 * HANG_GUARD)
        cut = context.new_page()
        cut.goto(f"http://127.0.0.1:{proxy.port}/")
        cut.get_by_text("Connected", exact=True).wait_for()
        listening = hear_a_count(cut)
        next(listening)
        expect(cut.get_by_text("Connection lost. Coming back…")).to_be_visible()
        expect(cut.get_by_role("button", name="Send")).to_be_disabled()
        proxy.is_closed = False
        assert next(listening) == expected
        assert proxy.connections == 2 and "audio_end_ms=" in proxy.requests[1]
        cut.get_by_label("Message").fill("This page is new")
        cut.keyboard.press("Enter")
        expect(agent_turn(cut)).to_contain_text("You said: This page is new")
        context.close()


def test_a_server_with_keys_asks_for_one(browser):
    key = "sk-browser-0123456789abcdef"
    with ParleyServer(PARLEY_API_KEY=key) as server:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        field = page.get_by_label("Key")
        expect(page.get_by_text("This server asks for a key")).to_be_visible()
        expect(field).to_be_focused()
        for wrong, told in [("sk-wrong", "Incorrect API key"), ("a b/c", "cannot send this key")]:
            field.fill(wrong)
            page.get_by_role("button", name="Connect").click()
            expect(page.get_by_role("alert")).to_contain_text(told)
        field.fill(key)
        page.keyboard.press("Enter")
        expect(page.get_by_text("Connected", exact=True)).to_be_visible()
        expect(field).to_be_hidden()
        page.get_by_label("Message").fill("This page is new")
        page.keyboard.press("Enter")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
        stored = page.evaluate("[...Object.values(localStorage), document.cookie].join()")
        assert key not in stored
        page.close()
