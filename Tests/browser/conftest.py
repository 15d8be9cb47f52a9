"""Runs a server, and Chromium with a recording as its microphone.

No test depends on the speed of the machine: each waits for what the page shows, and HANG_GUARD only
ends a test that would wait for ever."""

import pathlib
import shutil
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "clients"))

from parley_server import HANG_GUARD, ROOT, ParleyServer
from recordings import DATA, convert

# Waits for the page have no shorter time limit.
expect.set_options(timeout=1000 * HANG_GUARD)


@pytest.fixture(scope="session")
def parley():
    with ParleyServer() as server:
        yield server


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium, whose microphone repeats "go forward ten meters"."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "no chromium: run scripts/setup-apt.sh test"
    speech = tmp_path_factory.mktemp("speech") / "microphone.wav"
    convert(DATA / "goforward.raw", speech, rate=48000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox", "--use-fake-device-for-media-stream",
                "--use-fake-ui-for-media-stream", f"--use-file-for-fake-audio-capture={speech}",
                "--autoplay-policy=user-gesture-required",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser, parley):
    """The page, connected; an error in its scripts or a blocked resource fails the test."""
    context = browser.new_context(permissions=["microphone"])
    context.set_default_timeout(1000 * HANG_GUARD)
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: problems.append(request.url)
            if f"127.0.0.1:{parley.port}" not in request.url and request.url[:5] != "data:"
            else None)
    page.goto(f"http://127.0.0.1:{parley.port}/")
    page.get_by_text("Connected", exact=True).wait_for()
    yield page
    context.close()
    assert problems == []


@pytest.fixture(scope="session")
def screenshot():
    """The path of the screenshot of a finished conversation."""
    return ROOT / ".build/browser.png"


def pytest_terminal_summary(terminalreporter):
    """The line that `make test` counts."""
    count = {key: len(value) for key, value in terminalreporter.stats.items()}
    failed = count.get("failed", 0) + count.get("error", 0)
    terminalreporter.write_line(f"{count.get('passed', 0)} passed, {failed} failed")
