"""Deals the files of a suite to the workers of pytest-xdist, the longest first.

durations.txt beside the conftest.py has a line for each file: its name, its seconds as recorded, and `busy`
if most of them need a token (tokens.py). A file without a line comes first. While as many busy files run as
there are tokens, a worker gets one that is not busy, so that few workers wait for a token.

    PARLEY_RECORD_DURATIONS=1 Tests/clients/run.sh      writes the file anew"""

import collections
import math
import os

import pytest

from pytest_parley.tokens import NAMES

try:
    from xdist.scheduler import LoadFileScheduling
except ImportError:
    # An environment for one file has no workers.
    LoadFileScheduling = object


def durations_file(config):
    return config.rootpath / "durations.txt"


def read(path):
    """The seconds of each file by its name, and the names of the busy files."""
    seconds, busy = {}, set()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        name, recorded, *mark = line.split()
        seconds[name] = float(recorded)
        busy.update([name] if mark else [])
    return seconds, busy


class LongestFirst(LoadFileScheduling):
    """The scheduler of `--dist loadfile` with another choice of the next file."""

    def __init__(self, config, log=None):
        super().__init__(config, log)
        self.seconds, self.busy = read(durations_file(config))

    def _assign_work_unit(self, node):
        self.workqueue.move_to_end(self.next_file(), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node):
        """Gives the tests of a worker that has died to others, without the one that ended it: xdist would
        begin with it again and again."""
        files = self.assigned_work.pop(node)
        waiting = [
            (tests, test) for tests in files.values() for test, is_done in tests.items() if not is_done]
        if not waiting:
            return None
        tests, crashed = waiting[0]
        tests[crashed] = True
        self.workqueue.update(
            {name: tests for name, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def next_file(self):
        running = sum(
            name in self.busy and not all(tests.values())
            for files in self.assigned_work.values() for name, tests in files.items())
        waiting = list(self.workqueue)
        if running >= len(NAMES):
            waiting = [name for name in waiting if name not in self.busy] or waiting
        return max(waiting, key=lambda name: self.seconds.get(name, math.inf))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return LongestFirst(config, log)


class Recorder:
    """Adds up how long the tests of each file took, without their waiting for tokens."""

    def __init__(self):
        self.seconds = collections.Counter()
        self.busy_seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.partition("::")[0]
        self.seconds[name] += report.duration
        if "busy" in report.keywords:
            self.busy_seconds[name] += report.duration

    def pytest_sessionfinish(self, session):
        def line(name, seconds):
            mark = " busy" if self.busy_seconds[name] > seconds / 2 else ""
            return f"{name} {max(1, round(seconds))}{mark}\n"

        text = "".join(line(*each) for each in self.seconds.most_common())
        durations_file(session.config).write_text(text, encoding="utf-8")


def pytest_configure(config):
    # Workers and servers do not get the variable. A run without workers is not of the whole suite.
    is_wanted = os.environ.pop("PARLEY_RECORD_DURATIONS", None)
    if is_wanted and getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Recorder())
