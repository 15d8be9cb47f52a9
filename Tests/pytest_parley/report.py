"""The end of a run: the figures that tests measured, and the line that `make test` counts."""

import pytest


@pytest.fixture
def figure(request):
    """Takes a line with a measurement, printed after the tests."""
    return lambda line: request.node.user_properties.append(("figure", line))


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
    failed = {report.nodeid for key in ("failed", "error") for report in stats.get(key, [])}
    passed = {report.nodeid for report in stats.get("passed", [])} - failed
    terminalreporter.write_line(f"{len(passed)} passed, {len(failed)} failed")
