"""Runs the tests of one client library in parallel. Each scenario has its own relay, which checks
every event. Warnings that the library logs are recorded."""

import asyncio
import collections
import concurrent.futures
import contextlib
import logging
import threading
import time

import pytest
from parley_server import HANG_GUARD
from recording_proxy import RecordingProxy


class Complaints(logging.Handler):
    """Warnings and errors that were logged, by thread."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = collections.defaultdict(list)

    def emit(self, record):
        line = f"{record.levelname} {record.name}: {record.getMessage()}"
        self.lines[threading.get_ident()].append(line)


def may_say(*sentences):
    """Marks a scenario in which the library may log one of these warnings."""
    def mark(scenario):
        scenario.sentences = sentences
        return scenario

    return mark


def for_each(scenarios):
    """Runs a test for each scenario, as the parameter `scenario`."""
    return pytest.mark.parametrize("scenario", scenarios, ids=lambda each: each.__name__)


@contextlib.contextmanager
def side_by_side(scenarios, server, advice=()):
    """Starts all scenarios at once, because mostly they wait for speech to end. They are coroutine
    functions of a relay. Yields a function that waits for one and raises its exception. A scenario
    fails if the library logged a warning, unless it is expected or among the sentences of `advice`."""

    def run(scenario):
        thread = threading.get_ident()
        threads.add(thread)
        complaints.lines.pop(thread, None)
        with RecordingProxy(server.port) as wire:
            asyncio.run(asyncio.wait_for(scenario(wire), HANG_GUARD))
        tolerated = (*advice, *getattr(scenario, "sentences", ()))
        lines = complaints.lines[thread]
        lines = [line for line in lines if not any(each in line for each in tolerated)]
        assert not lines, lines

    complaints, threads = Complaints(), set()
    logging.getLogger().addHandler(complaints)
    with concurrent.futures.ThreadPoolExecutor(len(scenarios)) as pool:
        running = {scenario: pool.submit(run, scenario) for scenario in scenarios}
        yield lambda scenario: running[scenario].result()
    logging.getLogger().removeHandler(complaints)
    # Warnings from threads that a library has started.
    assert complaints.lines.keys() <= threads, complaints.lines


async def until(is_true, what):
    """Waits until something becomes true, and returns it."""
    deadline = time.monotonic() + HANG_GUARD
    while not (found := is_true()):
        assert time.monotonic() < deadline, f"it did not come: {what}"
        await asyncio.sleep(0.01)
    return found


async def speak(send, audio, rate=24000, milliseconds=20):
    """Passes samples to a coroutine function in pieces, in real time: only then does speech meet a
    reply that is being played."""
    size = 2 * rate // 1000 * milliseconds
    begin = time.monotonic()
    for index, start in enumerate(range(0, len(audio), size)):
        await asyncio.sleep(begin + index * milliseconds / 1000 - time.monotonic())
        await send(audio[start : start + size])


def check_cancelled(event, *reasons):
    """Checks the response.done of an interrupted response, for one of the reasons."""
    response = event["response"]
    assert response["status"] == "cancelled", response
    assert response["status_details"]["reason"] in reasons, response["status_details"]


def check_nothing_after(wire, done):
    """Checks that no event of a response comes after its end."""
    late = wire.received[wire.received.index(done) + 1 :]
    ours = [event["type"] for event in late if event.get("response_id") == done["response"]["id"]]
    assert not ours, ours
