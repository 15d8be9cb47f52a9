"""Chromium with parley.js behind a bad network: what `network.py` measures of a listener, at the page itself.

    page_calls.py SOUND SECONDS

Each page is loaded on a perfect link, then its network becomes the one that is measured. Its microphone hears
a quiet room all the time, and replies are asked for by typing. The page's own worklet reports what it
plays."""

import asyncio
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

from playwright.async_api import async_playwright

from links import Links
from network import COMPARED, PERFECT, Servers, Cell, network, table

# Several browsers take each other the processor, which is heard as gaps.
AT_ONCE = 1
TYPED = "Please count to 20"
PATIENCE_MS = 300_000

# Keeps what the page's player reports: time, item, ms of it heard, whether it sounds, ms that wait, and its target.
RECORD = """
    window.reports = [];
    const { AudioWorkletNode: Original } = window;
    window.AudioWorkletNode = class extends Original {
        constructor(context, name, options) {
            super(context, name, options);
            if (name !== "parley-player") return;
            this.port.addEventListener("message", ({ data }) => window.reports.push([
                performance.now(), data.heard?.item, data.heard?.ms, data.isSounding, data.waiting,
                data.target]));
        }
    };
"""

OPEN = """async (audio) => {
    const { ParleySession } = await import("/parley.js");
    window.session = new ParleySession({ audio });
    await session.open();
    await session.talk();
    window.times = [];
    session.on("hops", ({ soundMs }) => { if (soundMs !== null) times.push(soundMs); });
}"""

ASK = """async (text) => {
    session.say(text);
    await new Promise((resolve) => {
        let hasSpoken = false;
        const off = session.on("activity", (activity) => {
            hasSpoken ||= activity === "speaking";
            if (!hasSpoken || activity === "speaking" || activity === "thinking") return;
            off();
            resolve();
        });
    });
}"""


class PageCall:
    """One page's figures."""

    def __init__(self):
        self.gaps, self.heard, self.waiting, self.targets, self.times = [], 0.0, [], [], []
        self.statistics = {}

    def read(self, reports):
        """Takes the reports of a page in order."""
        before, stopped, played = None, None, {}
        for at, item, ms, sounds, waiting, target in reports:
            if item is None:
                continue
            if item != before:
                before, stopped = item, None
            if sounds and stopped is not None:
                self.gaps.append((at - stopped) / 1000)
                stopped = None
            if not sounds and stopped is None:
                stopped = at
            if sounds:
                self.waiting.append(waiting)
            self.targets.append(target)
            played[item] = ms
        self.heard = sum(played.values()) / 1000


async def call(playwright, links, port, folder, conditions, codec, seconds):
    link = links.add(PERFECT, f"page {conditions}")
    with tempfile.TemporaryDirectory() as name:
        program = pathlib.Path(name) / "chromium"
        program.write_text(
            f'#!/bin/sh\nexec ip netns exec {link.namespace} {shutil.which("chromium")} "$@"\n')
        program.chmod(0o755)
        origin = f"http://{link.server}:{port}"
        browser = await playwright.chromium.launch(executable_path=str(program), args=[
            "--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
            f"--use-file-for-fake-audio-capture={folder}/quiet.wav",
            "--autoplay-policy=no-user-gesture-required",
            f"--unsafely-treat-insecure-origin-as-secure={origin}",
        ])
        page = await (await browser.new_context(permissions=["microphone"])).new_page()
        page.set_default_timeout(PATIENCE_MS)
        await page.add_init_script(RECORD)
        await page.goto(f"{origin}/openapi.json")
        await page.evaluate(OPEN, codec)
        link.change(conditions)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await page.evaluate(ASK, TYPED)
        found = PageCall()
        found.read(await page.evaluate("reports"))
        found.times = await page.evaluate("times")
        found.statistics = await page.evaluate("session.statistics")
        await browser.close()
    return found


async def main():
    folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    todo = [(each, codec) for each in [PERFECT, *COMPARED] for codec in ("auto", "pcm")]
    rows = {}
    room = asyncio.Semaphore(AT_ONCE)
    with Links() as links, Servers(links) as servers:
        port = servers.port(Cell(PERFECT))
        async with async_playwright() as playwright:
            async def one(conditions, codec):
                async with room:
                    rows[conditions, codec] = await call(
                        playwright, links, port, folder, conditions, codec, seconds)

            await asyncio.gather(*(one(*each) for each in todo))
    print("The page in Chromium:\n")
    table(
        ["RTT", "loss", "rate", "codec", "typed → sound, median", "gaps a minute", "silence a minute",
         "waits, median", "buffer's target, last"],
        [[*network(conditions), found.statistics["output"],
          f"{statistics.median(found.times):,.0f} ms", f"{len(found.gaps) / found.heard * 60:.1f}",
          f"{sum(found.gaps) / found.heard * 60:.2f} s", f"{statistics.median(found.waiting):.0f} ms",
          f"{found.targets[-1]:.0f} ms"] for (conditions, _), found in
         ((each, rows[each]) for each in todo)])


asyncio.run(main())
