"""Two tokens for work that keeps a processor busy: at most two such pieces run at once.

Tests mostly wait, so more of them run side by side than there are processors. A test with the mark `busy`
takes a token from its set-up to the end of its tear-down. scripts/token.sh takes one for a command.

A token is a lock (flock) on a file in .build/tokens/, which the kernel frees when its process ends. The
kernel can wait for one lock only, so one process tries both again and again; the others wait for the
lock of the file `queue`. TEST_TOKEN says that the process runs below a holder and takes none."""

import contextlib
import fcntl
import os
import pathlib
import time

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".build/tokens"
NAMES = ["0", "1"]
# How long a token may be asked for, in seconds. It only ends what would wait for ever.
PATIENCE = 7200


@contextlib.contextmanager
def token():
    """Waits for a token, and holds it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(FOLDER / name, "ab")) for name in NAMES]
        with open(FOLDER / "queue", "ab") as queue:
            fcntl.flock(queue, fcntl.LOCK_EX)
            deadline = time.monotonic() + PATIENCE
            while not any(has_taken(file) for file in files):
                if time.monotonic() > deadline:
                    raise TimeoutError("no token for a busy test has become free")
                time.sleep(0.05)
        yield


def has_taken(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def pytest_configure(config):
    config.addinivalue_line("markers", "busy: keeps a processor busy, and takes one of two tokens")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    is_held = not item.get_closest_marker("busy") or os.environ.get("TEST_TOKEN")
    with contextlib.nullcontext() if is_held else token():
        return (yield)
