"""The end of a run: the figures that tests measured, a block for each failed test, and the line that
`make test` counts.

A block has the test, its assertion, the end of the log of each server that ran in it, and the command that
runs it again. scripts/test.sh collects the blocks of all suites."""

import pathlib
import shlex

import parley_server
import pytest

ROOT = parley_server.ROOT
ASSERTION_LINES = 6
LOG_LINES = 15
# A longer line, such as one with the whole of an audio event, is cut.
LINE_LENGTH = 300
SIZES = pytest.StashKey()


@pytest.fixture
def figure(request):
    """Takes a line with a measurement, printed after the tests."""
    return lambda line: request.node.user_properties.append(("figure", line))


# ---- In the process of the test: which servers ran in it


def size(server):
    return server.log_path.stat().st_size if server.log_path.exists() else 0


def found_in(value):
    """The servers in what a fixture gave."""
    if isinstance(value, parley_server.ParleyServer):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from found_in(each)


def servers_of(item):
    """The servers that were started in a test, that a fixture gave to it, or that logged something."""
    before = item.stash[SIZES]
    given = {server for value in item.funcargs.values() for server in found_in(value)}
    return [
        server for server in parley_server.STARTED
        if server in given or size(server) != before.get(server)]


def end_of_log(server):
    lines = server.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    return str(server.log_path.relative_to(ROOT)), lines[-LOG_LINES:]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    parley_server.STARTED[:] = [server for server in parley_server.STARTED if server.is_running()]
    item.stash[SIZES] = {server: size(server) for server in parley_server.STARTED}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        report.logs = [end_of_log(each) for each in servers_of(item) if each.log_path.exists()]
    return report


# ---- In the process that prints: what happened to all tests


def assertion(report):
    """The lines that say what failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash:
        place = pathlib.Path(crash.path)
        place = place.relative_to(ROOT) if place.is_relative_to(ROOT) else place
        when = {"setup": "set-up, ", "teardown": "tear-down, "}.get(report.when, "")
        return f"{when}{place}:{crash.lineno}: {crash.message}".splitlines()
    lines = str(report.longrepr).splitlines()
    return [line for line in lines if line.startswith("E ")] or lines[-ASSERTION_LINES:]


def indented(lines, spaces):
    return [f"{' ' * spaces}{line[:LINE_LENGTH]}".rstrip() for line in lines]


def block(reports, suite):
    """The lines about one test, of which a call and a tear-down may have failed."""
    nodeid = reports[0].nodeid
    yield f"FAILED {suite}/{nodeid}"
    for report in reports:
        yield from indented(assertion(report)[:max(1, ASSERTION_LINES // len(reports))], 4)
    logs = {path: lines for report in reports for path, lines in getattr(report, "logs", [])}
    for path, lines in logs.items():
        yield f"    server's log: {path}"
        yield from indented(lines, 8)
    yield f"    again: {suite}/run.sh {shlex.quote(nodeid)}"


class Figures:
    def __init__(self):
        self.lines = []

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.lines += [line for name, line in report.user_properties if name == "figure"]


def pytest_configure(config):
    config.pluginmanager.register(Figures(), "figures")


def pytest_terminal_summary(terminalreporter):
    config, stats = terminalreporter.config, terminalreporter.stats
    for line in config.pluginmanager.getplugin("figures").lines:
        terminalreporter.write_line(line)
    failed = {}
    for report in [*stats.get("failed", []), *stats.get("error", [])]:
        failed.setdefault(report.nodeid, []).append(report)
    suite = config.rootpath.relative_to(ROOT)
    for reports in failed.values():
        for line in block(reports, suite):
            terminalreporter.write_line(line)
    passed = {report.nodeid for report in stats.get("passed", [])} - set(failed)
    terminalreporter.write_line(f"{len(passed)} passed, {len(failed)} failed")
