"""The page in Debian's Firefox ESR.

Firefox takes no recording as its microphone. Its fake one is a tone, which shows that a device is captured and
sent. A spoken turn has the recording in place of the device: a script gives it to the page."""

import base64

import pytest
from firefox import Firefox
from recordings import word_errors, words
from talking import RECORD_EVENTS, RECORD_LOUDSPEAKER, loudspeaker, recognised

pytestmark = pytest.mark.long

PREFERENCES = {
    # A microphone without a device and without a question.
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    # Nothing is fetched from elsewhere.
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "http://127.0.0.1:9/",
    "toolkit.telemetry.enabled": False,
}

# A microphone that is a recording, RECORDING in base64, from the moment at which it is opened. The script also
# runs in the tab's first, empty page, which has no devices.
SPEAKING_MICROPHONE = """
    if (window.MediaDevices) MediaDevices.prototype.getUserMedia = async () => {
        const bytes = Uint8Array.from(atob("RECORDING"), (letter) => letter.charCodeAt(0));
        const context = new AudioContext();
        const source = context.createBufferSource();
        source.buffer = await context.decodeAudioData(bytes.buffer);
        source.loop = true;
        const microphone = context.createMediaStreamDestination();
        source.connect(microphone);
        source.start();
        return microphone.stream;
    };
"""


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    browser = Firefox(tmp_path_factory.mktemp("firefox"), PREFERENCES)
    yield browser
    browser.close()


@pytest.fixture
def open_page(firefox, parley):
    """Opens the page with a script. An error in the page's scripts fails the test."""
    tabs = []

    def open_page(script):
        tabs.append(firefox.open(f"http://127.0.0.1:{parley.port}/", script))
        tabs[-1].state("Ready")
        return tabs[-1]

    yield open_page
    for tab in tabs:
        tab.close()
    assert firefox.problems() == []


def heard_errors(page, parley, folder):
    """Words of the last reply that the loudspeaker did not get, or got wrong."""
    heard = recognised(parley, loudspeaker(page), folder)
    return word_errors(words(page.texts(".turn.assistant .text")[-1]), words(heard))


def test_a_typed_message_is_answered_and_heard(open_page, parley, tmp_path):
    page = open_page(RECORD_LOUDSPEAKER)
    page.type_message("This page is new")
    page.state("Speaking")
    page.state("Ready")
    assert page.texts(".turn.user .text") == ["This page is new"]
    assert page.texts(".turn.assistant .text") == ["You said: This page is new."]
    assert page.texts("#fact-sound") == ["compressed (Opus), also for slow networks"]
    assert heard_errors(page, parley, tmp_path) <= 2


def test_the_fake_microphone_is_sent(open_page, parley):
    page = open_page(RECORD_EVENTS)
    before = float(parley.metric("parley_audio_received_seconds_total"))
    page.click("talk")
    page.wait("window.sentPackets >= 150")
    assert page.texts("#talk-label") == ["Microphone off"]
    page.click("talk")
    page.wait("document.getElementById('talk-label').textContent === 'Start talking'")
    # The answer to a message comes after the audio that was sent before it.
    page.type_message("This page is new")
    page.wait("document.querySelector('.turn.assistant .text')?.textContent.endsWith('new.')")
    assert float(parley.metric("parley_audio_received_seconds_total")) - before > 2


def test_a_spoken_turn_is_answered_and_heard(open_page, parley, microphone, tmp_path):
    recording = base64.b64encode(microphone.read_bytes()).decode()
    page = open_page(RECORD_LOUDSPEAKER + SPEAKING_MICROPHONE.replace("RECORDING", recording))
    page.click("talk")
    page.state("You speak")
    page.state("Speaking")
    page.state("Listening")
    page.click("talk")
    said = page.texts(".turn.user .text")[0]
    assert word_errors(words("go forward ten meters"), words(said)) <= 1
    assert heard_errors(page, parley, tmp_path) <= 2
