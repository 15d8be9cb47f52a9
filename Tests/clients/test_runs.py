"""How a run of these tests ends, whatever happens in it: each failed test has its block, and the last line
counts every test. And how work that keeps a processor busy shares two tokens. Tests/pytest_parley has both."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from parley_server import BINARY, HANG_GUARD, ROOT
from pytest_parley import tokens

CONFTEST = f"""
    import sys
    sys.path += [{str(ROOT / "Tests")!r}, {str(ROOT / "Tests/clients")!r}]
    pytest_plugins = ["pytest_parley"]
"""
SERVER = """
    import pytest
    from parley_server import ParleyServer

    @pytest.fixture(scope="module")
    def server():
        with ParleyServer() as server:
            yield server

    def test_right(server, figure):
        figure("a figure")

    def test_wrong(server):
        assert server.get("/")[0] == 299
"""
CRASH = """
    import os, pytest

    def test_before():
        pass

    def test_that_kills_its_worker():
        os._exit(1)

    def test_after():
        pass
"""
TEAR_DOWN = """
    import pytest

    @pytest.fixture
    def broken():
        yield
        raise RuntimeError("it does not end")

    def test_whose_tear_down_fails(broken):
        pass
"""


@pytest.fixture
def suite():
    """A folder of the checkout with three files."""
    folder = ROOT / ".build/test" / f"suite-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"conftest": CONFTEST, "test_server": SERVER, "test_crash": CRASH, "test_end": TEAR_DOWN}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def output(suite, *arguments):
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--disable-plugin-autoload", "-q", "-rN", "-p",
         "no:cacheprovider", *arguments], cwd=suite, capture_output=True, text=True,
        timeout=HANG_GUARD, check=False, env=environment | {"PARLEY_TEST_BINARY": BINARY})
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


def block(lines, test):
    """The lines about a failed test."""
    start = lines.index(f"FAILED {test}")
    end = next(index for index in range(start, len(lines)) if lines[index].startswith("    again: "))
    return lines[start : end + 1]


def test_a_failure_explains_itself(suite):
    name = f".build/test/{suite.name}"
    for arguments in [], ["-p", "xdist.plugin", "--dist", "loadfile", "--numprocesses", "1"]:
        lines = output(suite, *arguments, "test_server.py", "test_end.py")
        wrong = block(lines, f"{name}/test_server.py::test_wrong")
        assert wrong[1].endswith("assert 200 == 299") and "test_server.py:14: " in wrong[1]
        log = next(line for line in wrong if line.startswith("    server's log: "))
        assert (ROOT / log.split()[-1]).exists()
        assert any("/metrics" in line for line in wrong[wrong.index(log):])
        assert wrong[-1] == f"    again: {name}/run.sh test_server.py::test_wrong"
        end = block(lines, f"{name}/test_end.py::test_whose_tear_down_fails")
        assert "tear-down, " in end[1] and end[1].endswith("RuntimeError: it does not end")
        assert "a figure" in lines
        assert "1 passed, 2 failed" in lines


def test_a_worker_that_dies_is_one_failure_and_the_others_are_counted(suite):
    lines = output(
        suite, "-p", "xdist.plugin", "--dist", "loadfile", "--numprocesses", "2", "test_crash.py",
        "test_server.py::test_right")
    crash = block(lines, f".build/test/{suite.name}/test_crash.py::test_that_kills_its_worker")
    assert "crashed while running" in crash[1]
    assert "3 passed, 1 failed" in lines


def test_of_two_tokens_a_third_gets_the_one_whose_holder_dies(tmp_path, monkeypatch):
    # A checkout of its own, because this run uses the tokens.
    (tmp_path / "scripts").mkdir()
    for name in "token.sh", "common.sh":
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    monkeypatch.setattr(tokens, "FOLDER", tmp_path / ".build/tokens")
    monkeypatch.delenv("TEST_TOKEN", raising=False)

    def take():
        with tokens.token():
            return True

    holders = [
        subprocess.Popen(
            [tmp_path / "scripts/token.sh", "sh", "-c", "echo held; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in tokens.NAMES]
    try:
        assert [holder.stdout.readline() for holder in holders] == [b"held\n"] * 2
        for name in tokens.NAMES:
            with open(tokens.FOLDER / name, "ab") as file:
                assert not tokens.has_taken(file)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            third = pool.submit(take)
            holders[0].kill()
            assert third.result(HANG_GUARD)
    finally:
        for holder in holders:
            holder.stdin.close()
            holder.wait(HANG_GUARD)
            holder.stdout.close()
