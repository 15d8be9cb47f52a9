"""What several browser tests do with the page."""

import base64
import json
import wave

# A script for the page that keeps the samples that its one <audio> element gets, as a loudspeaker would.
RECORD_LOUDSPEAKER = """
    window.heard = [];
    window.lateMs = 0;
    const { play } = HTMLMediaElement.prototype;
    HTMLMediaElement.prototype.play = function () {
        if (this.srcObject && !this.isRecorded) {
            this.isRecorded = true;
            const context = new AudioContext({ sampleRate: 24000 });
            const source = context.createMediaStreamSource(this.srcObject);
            const recorder = context.createScriptProcessor(1024, 1, 1);
            let begun = null;
            let blocks = -1;
            recorder.onaudioprocess = ({ inputBuffer }) => {
                window.heard.push(inputBuffer.getChannelData(0).slice());
                blocks += 1;
                const now = [performance.now(), 1000 * context.currentTime];
                begun ??= now;
                const [passed, played] = now.map((time, index) => time - begun[index]);
                const recorded = blocks * 1024 / 24;
                window.lateMs = Math.max(window.lateMs, passed - played, played - recorded);
            };
            source.connect(recorder).connect(context.destination);
        }
        return play.call(this);
    };
"""

# A script that keeps every state that the page shows, and which of them `state` has seen last.
RECORD_STATES = """
    window.states = [];
    window.lastSeen = -1;
    new MutationObserver(() => {
        const name = document.getElementById("state")?.textContent;
        if (name !== undefined && name !== window.states.at(-1)) window.states.push(name);
    }).observe(document, { subtree: true, childList: true, characterData: true });
"""

# A script that keeps every event that the page sends, and counts its binary messages.
RECORD_EVENTS = """
    window.sent = [];
    window.sentPackets = 0;
    const { send } = WebSocket.prototype;
    WebSocket.prototype.send = function (message) {
        if (typeof message === "string") window.sent.push(JSON.parse(message));
        else window.sentPackets += 1;
        return send.call(this, message);
    };
"""


def user_turn(page):
    return page.locator(".turn.user").last


def agent_turn(page):
    return page.locator(".turn.assistant").last


def text_of(turn):
    return turn.locator(".text").inner_text()


# States that last until the user does something.
LASTING = ["Ready", "Live"]


def state(page, name):
    """Waits until the page shows a state. One that does not last may be over on a busy machine: it counts where
    it came after the one that the last call has seen. Needs RECORD_STATES, which `open_page` brings."""
    page.wait_for_function("""([name, lasts]) => {
        const { states } = window;
        const isShown = states.at(-1) === name;
        const found = isShown || lasts ? states.length - 1 : states.indexOf(name, window.lastSeen + 1);
        if (!isShown && (lasts || found < 0)) return false;
        window.lastSeen = found;
        return true;
    }""", arg=[name, name in LASTING])


def sign_in(page, key):
    """Gives the operator's page a key."""
    page.get_by_label("Operator's key").fill(key)
    page.get_by_role("button", name="Connect").click()


def type_message(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def apply(page, **choices):
    """Applies settings: `detection`, `voice`, `microphone` by value, `speaks` as a boolean."""
    page.get_by_role("button", name="Settings").click()
    for name, value in choices.items():
        control = page.locator(f"#{name}")
        if isinstance(value, bool):
            control.set_checked(value)
        elif control.evaluate("(element) => element.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
    page.get_by_role("button", name="Apply").click()


def was_recorded_in_time(page):
    """Whether the loudspeaker was recorded in time: a busy machine plays and records late, and leaves blocks
    out. Needs RECORD_LOUDSPEAKER."""
    # 5 to 32 ms were seen, also beside two busy loops.
    return page.evaluate("window.lateMs") < 60


def was_recorded_whole(page):
    """Whether the page also played without a gap."""
    return was_recorded_in_time(page) and page.locator("#fact-gaps").inner_text() == "0"


def loudspeaker(page):
    """What the loudspeaker got so far, as 16-bit samples at 24 kHz. Needs RECORD_LOUDSPEAKER."""
    coded = page.evaluate("""() => {
        const samples = window.heard.flatMap((block) => [...block]);
        const bytes = new Uint8Array(new Int16Array(
            samples.map((sample) => Math.max(-1, Math.min(1, sample)) * 32767)).buffer);
        let text = "";
        for (let start = 0; start < bytes.length; start += 8192)
            text += String.fromCharCode(...bytes.subarray(start, start + 8192));
        return btoa(text);
    }""")
    return base64.b64decode(coded)


def sent(page, kind):
    """The events of a type that the page has sent. Needs RECORD_EVENTS."""
    return json.loads(page.evaluate(
        "(kind) => JSON.stringify(window.sent.filter(({ type }) => type === kind))", kind))


def recognised(parley, samples, folder):
    """The words of samples at 24 kHz, as the server's recogniser hears them."""
    # Silence takes its time, too.
    loud = [index for index, sample in enumerate(memoryview(samples).cast("h")) if sample]
    samples = samples[2 * loud[0] : 2 * loud[-1]] + bytes(48_000)
    path = folder / "loudspeaker.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 24000, 0, "NONE", ""))
        file.writeframes(samples)
    turns = parley.turns("--wav", str(path))
    return " ".join(turn["heard"] for turn in turns)
