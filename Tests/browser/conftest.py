"""Runs a server, and Chromium with a recording as its microphone.

No test depends on the speed of the machine: each waits for what the page shows, and HANG_GUARD only
ends a test that would wait for ever."""

import contextlib
import pathlib
import shutil
import sys
import wave

import pytest
from playwright.sync_api import expect, sync_playwright

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS), str(TESTS / "clients")]

from parley_server import HANG_GUARD, ROOT, ParleyServer
from recordings import DATA, convert
from talking import RECORD_STATES, sign_in, state

pytest_plugins = ["pytest_parley"]

# Waits for the page have no shorter time limit.
expect.set_options(timeout=1000 * HANG_GUARD)

APP_KEY = "sk-app-0123456789abcdef0123"
OPERATOR_KEY = "sk-operator-0123456789abcdef0123"

# The microphone says "go forward ten meters" in 2.8 s, is silent for 4 s, and begins again.
MICROPHONE_MS = 6_800


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the long tests as well")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes a minute or more; only with --long")


def pytest_collection_modifyitems(config, items):
    """Leaves out the long tests. Those with a browser keep a processor busy, because it draws."""
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker("busy")
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


def write_microphone(folder):
    """The recording that Chromium plays again and again as its microphone."""
    speech = convert(DATA / "goforward.raw", folder / "speech.wav", rate=48000)
    path = folder / "microphone.wav"
    with wave.open(str(speech)) as spoken, wave.open(str(path), "wb") as microphone:
        microphone.setparams(spoken.getparams())
        samples = spoken.readframes(spoken.getnframes())
        microphone.writeframes(samples.ljust(2 * 48 * MICROPHONE_MS, b"\0"))
    return path


@pytest.fixture(scope="session")
def parley():
    with ParleyServer(PARLEY_WARM_MODELS="true") as server:
        yield server


@pytest.fixture(scope="session")
def guarded(tmp_path_factory):
    """A server that asks for a key, of an application or an operator (APP_KEY, OPERATOR_KEY)."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{APP_KEY} name=app\n{OPERATOR_KEY} name=ops operator\n", encoding="utf-8")
    with ParleyServer(PARLEY_WARM_MODELS="true", PARLEY_API_KEYS_FILE=str(keys)) as server:
        yield server


@pytest.fixture(scope="session")
def playwright():
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def microphone(tmp_path_factory):
    """The recording that browsers hear."""
    return write_microphone(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="session")
def browser(playwright, microphone):
    """Chromium with the recording as its microphone. Headless, it refuses what it was not permitted."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "no chromium: run scripts/setup-apt.sh test"
    browser = playwright.chromium.launch(
        executable_path=path,
        args=[
            "--no-sandbox", "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-audio-capture={microphone}",
            "--autoplay-policy=user-gesture-required",
        ],
    )
    yield browser
    browser.close()


@contextlib.contextmanager
def page_opener(browser, parley, **defaults):
    """Gives a function that opens the page: `open_page(server=…, address=…, script=…, **options of the context)`.
    An error in its scripts or a resource of another server fails the test; `is_refused` allows the errors of
    refused requests."""
    contexts, problems = [], []

    def open_page(server=parley, address="", script="", waits=True, is_refused=False, **options):
        context = browser.new_context(**defaults | options)
        contexts.append(context)
        context.set_default_timeout(1000 * HANG_GUARD)
        # Asked for once: requests may still be reported when a proxy's socket is closed.
        place = f":{server.port}/"
        page = context.new_page()
        page.add_init_script(RECORD_STATES + script)
        page.on("pageerror", lambda error: problems.append(str(error)))
        if not is_refused:
            page.on("console", lambda line: problems.append(line.text)
                    if line.type == "error" else None)
        page.on("request", lambda request: problems.append(request.url)
                if place not in request.url
                and request.url[:5] not in ("data:", "blob:") else None)
        page.goto(address or f"http://127.0.0.1{place}")
        if waits:
            page.get_by_role("status").get_by_text("Ready", exact=True).wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def open_page(browser, parley):
    """`page_opener` of Chromium, with a microphone."""
    with page_opener(browser, parley, permissions=["microphone"]) as opener:
        yield opener


@pytest.fixture
def open_admin(open_page):
    """Opens the operator's page: `open_admin(server, key, **options)`; without a key it asks for one."""

    def open_admin(server, key="", **options):
        page = open_page(
            server=server, address=f"http://127.0.0.1:{server.port}/admin", waits=False,
            is_refused=True, **options)
        if key:
            sign_in(page, key)
            state(page, "Live")
        return page

    return open_admin


@pytest.fixture
def page(open_page):
    """The page, connected."""
    return open_page()


@pytest.fixture(scope="session")
def pictures():
    """The folder of the screenshots."""
    folder = ROOT / ".build/browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
