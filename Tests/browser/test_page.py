"""The conversation page as a user operates it: typing, speaking, interrupting, losing the network."""

import json
import re
import signal
import types

import pytest
from conftest import MICROPHONE_MS, OPERATOR_KEY
from cutting_proxy import CuttingProxy
from parley_server import ParleyServer, free_port
from playwright.sync_api import expect
from recordings import word_errors, words
from talking import (
    RECORD_EVENTS,
    RECORD_LOUDSPEAKER,
    agent_turn,
    apply,
    loudspeaker,
    recognised,
    sent,
    state,
    text_of,
    type_message,
    user_turn,
    was_recorded_in_time,
    was_recorded_whole,
)
from test_admission import haproxy
from test_looks import check

# Packets of 20 ms in which the microphone has said everything once.
ENOUGH_PACKETS = MICROPHONE_MS // 20
# The same from the middle of the phrase: then the whole of it, which takes 2.8 s, is in the packets.
WHOLE_PHRASE_PACKETS = (MICROPHONE_MS + 2_800) // 20


def wait_for_packets(page, count):
    """Waits until the page has sent so many packets since the last call."""
    page.wait_for_function("(count) => window.sentPackets >= count", arg=count)
    page.evaluate("window.sentPackets = 0")


# ---- Typing ----


def test_a_typed_message_is_answered(page):
    type_message(page, "This page is new")
    expect(user_turn(page)).to_contain_text("This page is new")
    expect(agent_turn(page)).to_contain_text("You said: This page is new")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    expect(page.locator("#hops tbody tr")).to_have_count(2)


def test_the_pages_work_below_a_path_of_a_proxy(open_page, parley, tmp_path):
    """Each request, and the WebSockets, are below that path, or `open_page` finds a problem."""
    rule = r"http-request replace-path ^/voice/(.*) /\1"
    with haproxy(parley, tmp_path, "http", rule) as port:
        proxied = types.SimpleNamespace(port=f"{port}/voice")
        page = open_page(server=proxied)
        type_message(page, "This page is new")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
        operators = open_page(
            server=proxied, address=f"http://127.0.0.1:{port}/voice/admin", waits=False)
        expect(operators.locator("#sessions tbody tr")).not_to_have_count(0)
        # A page that outlives the proxy tries to come back, which is no fault of it.
        for each in (page, operators):
            each.context.close()


def test_a_suggestion_is_a_message(page):
    page.get_by_role("button", name="What is Parley?").click()
    expect(agent_turn(page)).to_contain_text("voice session server")
    expect(page.get_by_text("Talk to this server.")).to_be_hidden()


def test_replies_can_be_silent(page):
    apply(page, speaks=False)
    type_message(page, "Thanks")
    expect(agent_turn(page)).to_contain_text("You are welcome.")
    # A screen reader reads them.
    expect(page.locator("[aria-live=polite]#announcer")).to_have_text("You are welcome.")


def test_the_agent_calls_a_function_of_the_page(page):
    type_message(page, "What time is it?")
    expect(page.locator(".aside.call")).to_contain_text("get_time() → It is")
    expect(agent_turn(page)).to_contain_text("Get time answered: It is")


def test_the_page_says_what_answers_and_how_to_connect_a_model(page, parley):
    page.get_by_role("button", name="A demo agent answers").click()
    about = page.get_by_role("dialog", name="A demo agent answers")
    expect(about).to_contain_text('make run ARGS="--llm http://127.0.0.1:11434/v1 --model NAME"')
    expect(about.get_by_role("link", name="Watch the server")).to_have_attribute("href", "admin")
    about.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="connect your model").click()
    expect(about).to_be_visible()


def test_the_page_names_the_model_that_answers(open_page):
    with ParleyServer("--llm", "http://127.0.0.1:1/v1", "--model", "small-model") as server:
        page = open_page(server=server)
        page.get_by_role("button", name="small-model answers").click()
        about = page.get_by_role("dialog", name="small-model answers")
        expect(about).to_contain_text("sends each turn to this model")
        expect(about).not_to_contain_text("demo agent", use_inner_text=True)
        expect(page.get_by_role("button", name="connect your model")).to_be_hidden()
        page.context.close()


def test_an_operators_key_shows_the_way_to_the_operators_page(open_page, guarded):
    page = open_page(server=guarded, waits=False, is_refused=True)
    page.get_by_label("Key").fill(OPERATOR_KEY)
    page.keyboard.press("Enter")
    state(page, "Ready")
    page.get_by_role("button", name="A demo agent answers").click()
    expect(page.get_by_role("link", name="Watch the server")).to_be_visible()


def save(page, kind):
    """What the page saves, as "text" or "JSON"."""
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"As {kind}").click()
    return download.value.path().read_text(encoding="utf-8")


def test_the_conversation_can_be_saved(page):
    type_message(page, "This page is new")
    expect(agent_turn(page)).to_contain_text("new")
    expect(agent_turn(page)).to_have_attribute("data-state", "done")
    assert save(page, "text") == "You: This page is new\nAgent: You said: This page is new.\n"
    entries = json.loads(save(page, "JSON"))["entries"]
    assert [(entry["role"], entry["text"]) for entry in entries] == [
        ("user", "This page is new"), ("assistant", "You said: This page is new."),
    ]


def test_another_conversation_begins_empty(page):
    type_message(page, "This page is new")
    expect(agent_turn(page)).to_contain_text("new")
    page.get_by_role("button", name="New").click()
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.get_by_text("Talk to this server.")).to_be_visible()
    state(page, "Ready")
    type_message(page, "Goodbye")
    expect(agent_turn(page)).to_contain_text("Goodbye!")


# ---- Speaking ----


def stop_talking(page):
    """Switches the microphone off. Its recording begins anew after some seconds, and would interrupt a
    reply that a busy machine speaks late."""
    page.get_by_role("button", name="Microphone off").click()


def test_a_spoken_turn_is_shown_and_its_reply_is_heard(open_page, parley, tmp_path):
    page = open_page(script=RECORD_LOUDSPEAKER)
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("button", name="Microphone off")).to_have_attribute(
        "aria-pressed", "true")
    state(page, "You speak")
    # A busy browser may lose the beginning of the phrase, which then comes again.
    expect(user_turn(page)).to_contain_text("forward")
    state(page, "Speaking")
    stop_talking(page)
    expect(page.locator("#fact-sound")).to_have_text("compressed (Opus), also for slow networks")
    state(page, "Ready")
    said, reply = text_of(user_turn(page)), text_of(agent_turn(page))
    assert word_errors(words("go forward ten meters"), words(said)) <= 1
    assert word_errors(words(f"you said {said}"), words(reply)) == 0
    hops = page.locator("#hops tbody tr").first.locator("td").all_inner_texts()
    times = [int(hop.removesuffix(" ms")) for hop in hops]
    assert times == sorted(times) and len(times) == 3
    # What the loudspeaker got are the words of the reply.
    heard = recognised(parley, loudspeaker(page), tmp_path)
    assert heard
    if page.locator(".turn.user").count() == 1 and was_recorded_whole(page):
        assert word_errors(words(reply), words(heard)) <= 2, heard


def test_a_browser_without_codecs_sends_and_plays_samples(open_page):
    page = open_page(script="delete window.AudioEncoder; delete window.AudioDecoder;")
    page.get_by_role("button", name="Start talking").click()
    expect(user_turn(page)).to_contain_text("forward")
    state(page, "Speaking")
    stop_talking(page)
    expect(page.locator("#fact-sound")).to_have_text("uncompressed (PCM), for fast networks")
    state(page, "Ready")
    expect(agent_turn(page).locator("del")).to_have_count(0)


def test_speaking_over_a_reply_interrupts_it(open_page):
    page = open_page(script=RECORD_EVENTS)
    type_message(page, "Please count to 100")
    reply = page.locator(".turn.assistant").first
    expect(reply).to_contain_text("100")
    page.wait_for_function("""() => window.sent.some(
        ({ type, audio_end_ms: ms }) => type === "output_audio_buffer.played" && ms > 1500)""")
    whole = text_of(reply)
    # From now on the recording speaks over the reply, which would otherwise last a minute.
    page.get_by_role("button", name="Start talking").click()
    expect(reply.locator("del")).to_be_visible()
    heard, cut = reply.evaluate(
        "(turn) => ['.text', 'del'].map((name) => turn.querySelector(name).innerText)")
    assert 0 < len(heard) < len(whole) and heard + cut == whole
    expect(user_turn(page)).to_contain_text("forward")
    expect(page.locator(".turn.assistant").nth(1)).to_be_visible()
    state(page, "Listening")


def test_a_phone_shows_the_newest_turn_and_folds_the_rest(open_page):
    page = open_page(viewport={"width": 375, "height": 780})
    line = page.get_by_role("button", name="Details")
    expect(line).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#facts")).to_be_hidden()
    type_message(page, "Please count to 3")
    expect(line).to_have_text(re.compile(r"^\s*First (word|sound) after \d+ ms\s*Details\s*$"))
    expect(page.locator("#hops")).to_be_hidden()
    line.click()
    expect(line).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#hops")).to_be_visible()
    expect(page.locator("#fact-session")).to_contain_text("sess_")
    expect(page.get_by_label("Message", exact=True)).to_be_in_viewport()
    line.click()
    expect(page.locator("#facts")).to_be_hidden()
    # On a wide screen nothing is folded, and no line is needed.
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.locator("#facts")).to_be_visible()
    expect(line).to_be_hidden()


def test_a_reply_can_be_stopped(open_page):
    page = open_page(script=RECORD_LOUDSPEAKER)
    type_message(page, "Please count to 100")
    state(page, "Speaking")
    page.get_by_role("button", name="Stop the reply").click()
    state(page, "Ready")
    expect(agent_turn(page).locator("del")).to_be_visible()
    # From then on the loudspeaker gets silence.
    page.evaluate("window.heard = []")
    page.wait_for_function("() => window.heard.length >= 12")
    assert not any(loudspeaker(page)[10_000:])
    type_message(page, "Please count to 90")
    expect(agent_turn(page)).to_contain_text("90")
    state(page, "Speaking")
    page.keyboard.press("Escape")
    state(page, "Ready")


def test_a_muted_microphone_sends_silence(open_page):
    page = open_page(script=RECORD_EVENTS)
    page.get_by_role("button", name="Start talking").click()
    page.get_by_role("button", name="Mute").click()
    expect(page.get_by_role("button", name="Mute")).to_have_attribute("aria-pressed", "true")
    # What was said before the click is a turn; from then on there is none.
    wait_for_packets(page, ENOUGH_PACKETS)
    state(page, "Ready")
    turns = page.locator(".turn").count()
    wait_for_packets(page, ENOUGH_PACKETS)
    state(page, "Ready")
    expect(page.locator(".turn")).to_have_count(turns)
    page.get_by_role("button", name="Mute").click()
    state(page, "Speaking")


def test_the_user_names_a_language(open_page):
    with ParleyServer("--recognizer-languages", "en,fr") as server:
        page = open_page(server=server, script=RECORD_EVENTS)
        notice = page.get_by_text("No voice of this server speaks French: the replies are text.")
        for language in ("fr", ""):
            apply(page, language=language)
            update = sent(page, "session.update")[-1]["session"]["audio"]["input"]
            assert update["transcription"].get("language", "") == language
            type_message(page, "This page is new")
            expect(agent_turn(page)).to_contain_text("You said: This page is new")
            expect(notice).to_be_visible(visible=language == "fr")
        page.context.close()


def test_one_language_is_no_choice(page):
    page.get_by_role("button", name="Settings").click()
    expect(page.locator("#voice")).to_be_visible()
    expect(page.locator("#language")).to_be_hidden()


def test_a_voice_can_be_heard_before_it_is_chosen(open_page):
    page = open_page(script=RECORD_LOUDSPEAKER + RECORD_EVENTS)
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_role("option", name="marin: a woman, medium")).to_have_count(1)
    page.locator("#voice").select_option("cedar")
    listen = page.get_by_role("button", name="Listen")
    # It may be over before the test looks.
    listen.evaluate("""(button) => new MutationObserver(
        () => { window.wasDisabled ||= button.disabled; }).observe(button, { attributes: true })""")
    listen.click()
    page.wait_for_function("() => window.wasDisabled")
    page.wait_for_function("() => window.heard.some((block) => block.some((each) => Math.abs(each) > 0.05))")
    expect(listen).to_be_enabled()
    [request] = sent(page, "response.create")
    assert request["response"]["audio"]["output"]["voice"] == "cedar"
    page.get_by_role("button", name="Cancel").click()
    # It is no part of the conversation, whose voice is what it was.
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.locator("#fact-voice")).to_have_text("marin: a woman, medium")
    type_message(page, "This page is new")
    expect(agent_turn(page)).to_contain_text("You said: This page is new")
    expect(page.locator(".turn")).to_have_count(2)


# ---- Push to talk ----


def test_holding_the_button_is_a_spoken_turn(open_page):
    page = open_page(script=RECORD_EVENTS)
    apply(page, detection="hold")
    button = page.get_by_role("button", name="Hold to speak")
    button.hover()
    page.mouse.down()
    state(page, "You speak")
    expect(page.get_by_role("button", name="Release to send")).to_have_attribute(
        "aria-pressed", "true")
    wait_for_packets(page, ENOUGH_PACKETS)
    page.mouse.up()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(user_turn(page)).to_contain_text("forward")
    expect(agent_turn(page)).to_contain_text("forward")
    state(page, "Ready")
    # The space key is the button, where no other control uses it. By now the recording is anywhere.
    page.get_by_role("log").focus()
    page.keyboard.down("Space")
    state(page, "You speak")
    page.evaluate("window.sentPackets = 0")
    wait_for_packets(page, WHOLE_PHRASE_PACKETS)
    page.keyboard.up("Space")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".turn.user")).to_have_count(2)
    expect(user_turn(page)).to_contain_text("forward")
    # Enter on the button, which cannot be held, begins a turn and ends it.
    button.focus()
    page.keyboard.press("Enter")
    state(page, "You speak")
    page.evaluate("window.sentPackets = 0")
    wait_for_packets(page, 10)
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".turn.user")).to_have_count(3)


def test_a_short_press_is_no_turn(page):
    apply(page, detection="hold")
    # Both ends of the press in one step, so that no sound fits between them, however late a click
    # would come.
    page.get_by_role("button", name="Hold to speak").evaluate("""(button) => {
        button.setPointerCapture = () => {};
        for (const type of ["pointerdown", "pointerup"])
            button.dispatchEvent(new PointerEvent(type, { bubbles: true }));
    }""")
    expect(page.get_by_role("alert")).to_contain_text("Hold the button while you speak")
    expect(page.locator(".turn")).to_have_count(0)
    page.get_by_label("Message", exact=True).press_sequentially("a b")
    expect(page.get_by_label("Message", exact=True)).to_have_value("a b")


# ---- The network and the server ----


def hear_a_count(page):
    """Asks for a spoken reply; then returns its text, the seconds of sound that were heard, and whether they were
    recorded in time."""
    type_message(page, "Please count to 8")
    state(page, "Speaking")
    yield
    state(page, "Ready")
    expect(page.locator(".turn.assistant")).to_have_count(1)
    samples = memoryview(loudspeaker(page)).cast("h")
    blocks = range(0, len(samples) - 480, 480)
    loud = [start for start in blocks if max(map(abs, samples[start : start + 480])) > 300]
    yield text_of(agent_turn(page)), len(loud) / 50, was_recorded_in_time(page)


def test_a_reply_goes_on_after_a_lost_connection(open_page, parley):
    listening = hear_a_count(open_page(script=RECORD_LOUDSPEAKER))
    next(listening)
    text, seconds, was_recorded = next(listening)
    # Opus takes about 3,000 bytes a second: the network is down in the middle of the reply.
    with CuttingProxy(parley.port, cuts=[14_000], stays_closed=True) as proxy:
        cut = open_page(server=proxy, script=RECORD_LOUDSPEAKER, is_refused=True)
        listening = hear_a_count(cut)
        next(listening)
        state(cut, "Connection lost")
        expect(cut.get_by_role("alert")).to_contain_text("Connection lost. What you type now is sent")
        proxy.is_closed = False
        again, heard, is_recorded = next(listening)
        assert again == text and cut.locator("del").count() == 0
        expect(cut.get_by_role("alert")).to_be_hidden()
        assert abs(heard - seconds) < 0.3 or not (was_recorded and is_recorded)
        assert proxy.connections == 2 and "audio_end_ms=" in proxy.requests[1]
        type_message(cut, "This page is new")
        expect(agent_turn(cut)).to_contain_text("You said: This page is new")


def stop_clock(page, later_seconds):
    """Lets so much time pass in the page, whose clock was installed, and stops it: no attempt to connect
    begins by itself any more. Less time than a test may stand still could be over when it is named."""
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + later_seconds)


def test_a_killed_server_wipes_nothing_and_what_is_typed_meanwhile_is_answered(open_page, pictures):
    port = free_port()
    with ParleyServer(port=port) as first:
        page = open_page(server=first, is_refused=True, color_scheme="light")
        apply(page, speaks=False)
        type_message(page, "The old server")
        expect(agent_turn(page)).to_contain_text("You said: The old server")
        expect(agent_turn(page)).to_have_attribute("data-state", "done")
        page.clock.install()
        first.process.kill()
        first.expected_status = -signal.SIGKILL
        state(page, "Connection lost")
        expect(page.locator("#lost")).to_contain_text(
            re.compile(r"Connection lost\..*(Next try in \d+ s\.|Trying…)"))
        stop_clock(page, later_seconds=20)
        expect(page.locator(".past")).to_have_count(0)
        type_message(page, "Nobody hears this yet")
        expect(user_turn(page)).to_contain_text("Nobody hears this yet")
        page.screenshot(path=pictures / "lost.png")
    with ParleyServer(port=port):
        page.get_by_role("button", name="Retry now").click()
        expect(agent_turn(page)).to_contain_text("You said: Nobody hears this yet")
        expect(agent_turn(page)).to_have_attribute("data-state", "done")
        expect(page.locator("#lost")).to_be_hidden()
        expect(page.locator(".log > :not(.welcome) .text, .divider")).to_have_text([
            "The old server", re.compile("You said: The old server"),
            "The server has lost the conversation. A new one begins.", "Nobody hears this yet",
            re.compile("You said: Nobody hears this yet"),
        ])
        greyed = page.locator(".turn").evaluate_all("(turns) => turns.map((turn) => turn.matches('.past'))")
        assert greyed == [True, True, False, False]
        check(page)
        page.screenshot(path=pictures / "started-over.png")
        assert save(page, "text") == (
            "You: The old server\nAgent: You said: The old server.\n"
            "You: Nobody hears this yet\nAgent: You said: Nobody hears this yet.\n")
        page.get_by_role("button", name="New").click()
        expect(page.locator(".turn, .divider")).to_have_count(0)
        page.context.close()


def test_what_is_typed_after_the_session_has_ended_is_said_in_the_next(open_page):
    """The page has given the session up, and begins others until a server answers."""
    port = free_port()
    with ParleyServer(port=port) as first:
        page = open_page(server=first, is_refused=True)
        apply(page, speaks=False)
        page.clock.install()
        first.process.kill()
        first.expected_status = -signal.SIGKILL
        state(page, "Connection lost")
        # Longer than the server would keep the session.
        stop_clock(page, later_seconds=7200)
        state(page, "Disconnected")
        type_message(page, "Still here")
        expect(user_turn(page)).to_contain_text("Not sent.")
    with ParleyServer(port=port):
        page.get_by_role("button", name="Retry now").click()
        expect(agent_turn(page)).to_contain_text("You said: Still here")
        expect(page.locator(".turn.user")).to_have_count(1)
        page.context.close()


def test_a_server_with_keys_asks_for_one(open_page):
    key = "sk-browser-0123456789abcdef"
    with ParleyServer(PARLEY_API_KEY=key) as server:
        page = open_page(server=server, waits=False, is_refused=True)
        field = page.get_by_label("Key")
        state(page, "This server asks for a key")
        expect(field).to_be_focused()
        for wrong, told in [("sk-wrong", "Incorrect API key"), ("a b/c", "cannot send this key")]:
            field.fill(wrong)
            page.get_by_role("button", name="Connect", exact=True).click()
            expect(page.get_by_role("alert")).to_contain_text(told)
        field.fill(key)
        page.keyboard.press("Enter")
        state(page, "Ready")
        expect(field).to_be_hidden()
        expect(page.locator("#operators")).to_be_hidden()
        type_message(page, "This page is new")
        expect(agent_turn(page)).to_contain_text("You said: This page is new")
        stored = page.evaluate("[...Object.values(localStorage), document.cookie].join()")
        assert key not in stored
        page.context.close()


def test_a_full_server_says_so_and_takes_the_page_later(open_page):
    with ParleyServer(PARLEY_MAX_SESSIONS="1") as server:
        first = open_page(server=server)
        second = open_page(server=server, waits=False, is_refused=True)
        expect(second.get_by_role("alert")).to_contain_text("no free place at the moment")
        # A page that is left closes its connection, which ends the session.
        first.goto("about:blank")
        state(second, "Ready")
        second.context.close()
        first.context.close()


# ---- The microphone ----


def test_a_refused_microphone_is_explained(open_page):
    page = open_page(permissions=[])
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("alert")).to_contain_text("The microphone is blocked")
    expect(page.get_by_role("button", name="Start talking")).to_be_enabled()
    # Typing still works.
    type_message(page, "This page is new")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(agent_turn(page)).to_contain_text("You said: This page is new")


@pytest.mark.parametrize(("name", "told"), [
    ("NotFoundError", "No microphone was found"),
    ("NotReadableError", "another program may be using it"),
])
def test_a_missing_microphone_is_explained(open_page, name, told):
    page = open_page(script=f"""
        navigator.mediaDevices.getUserMedia = async () => {{
            throw new DOMException("", "{name}");
        }};""")
    page.get_by_role("button", name="Start talking").click()
    expect(page.get_by_role("alert")).to_contain_text(told)


KEEP_TRACKS = """
    window.tracks = [];
    const { getUserMedia } = MediaDevices.prototype;
    MediaDevices.prototype.getUserMedia = async function (constraints) {
        window.constraints = constraints.audio;
        const stream = await getUserMedia.call(this, constraints);
        window.tracks.push(stream.getAudioTracks()[0]);
        return stream;
    };
"""


LAST_MICROPHONE = """async () => {
    const devices = await navigator.mediaDevices.enumerateDevices();
    return devices.filter(({ kind }) => kind === "audioinput").at(-1).deviceId;
}"""


def test_another_conversation_keeps_the_microphone(open_page):
    page = open_page(script=KEEP_TRACKS)
    page.get_by_role("button", name="Start talking").click()
    state(page, "You speak")
    apply(page, microphone=[page.evaluate(LAST_MICROPHONE)])
    page.wait_for_function("() => window.tracks.length === 2")
    page.get_by_role("button", name="New").click()
    state(page, "Ready")
    page.get_by_role("button", name="Start talking").click()
    page.wait_for_function("() => window.tracks[2]?.label.includes('2')")


def test_another_microphone_takes_over(open_page):
    page = open_page(script=KEEP_TRACKS)
    page.get_by_role("button", name="Start talking").click()
    state(page, "You speak")
    processing = ("echoCancellation", "noiseSuppression", "autoGainControl")
    assert all(page.evaluate("window.constraints")[name] for name in processing)
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    names = page.locator("#microphone option").all_inner_texts()
    page.get_by_role("button", name="Cancel").click()
    assert len(names) >= 3, names
    apply(page, microphone=[page.evaluate(LAST_MICROPHONE)])
    page.wait_for_function("() => window.tracks[1]?.label.includes('2')")
    assert page.evaluate("window.tracks[0].readyState") == "ended"
    state(page, "Speaking")
    # The new one is unplugged: the browser's choice takes its place, and without one the page says so.
    page.evaluate("""() => {
        window.tracks[1].stop();
        window.tracks[1].dispatchEvent(new Event("ended"));
    }""")
    page.wait_for_function("() => window.tracks[2]?.onended")
    page.evaluate("""() => {
        navigator.mediaDevices.getUserMedia = async () => {
            throw new DOMException("", "NotFoundError");
        };
        window.tracks[2].dispatchEvent(new Event("ended"));
    }""")
    expect(page.get_by_role("alert")).to_contain_text("The microphone was disconnected")
    expect(page.get_by_role("button", name="Start talking")).to_be_visible()


def test_a_reply_that_is_stopped_at_its_first_words_keeps_what_was_heard(page):
    for turn in range(5):
        type_message(page, "Please count to 100")
        # At its first words, which are shown before any sound of it is there.
        page.wait_for_function(
            """(turn) => {
                const reply = document.querySelectorAll(".turn.assistant")[turn];
                if (reply?.dataset.state !== "streaming") return false;
                document.getElementById("stop").click();
                return true;
            }""", arg=turn, polling=5)
        expect(page.locator(".turn.assistant").nth(turn).locator("del")).to_be_visible()
        state(page, "Ready")


def test_a_reply_cut_short_is_saved_as_cut(page):
    type_message(page, "Please count to 100")
    expect(agent_turn(page)).to_contain_text("100")
    state(page, "Speaking")
    page.get_by_role("button", name="Stop the reply").click()
    expect(agent_turn(page).locator("del")).to_be_visible()
    assert re.search(r"\[not heard: .*100\.\]$", save(page, "text").strip())
