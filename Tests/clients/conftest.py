"""Starts and stops the servers that the tests use.

No test depends on the speed of the machine. A test waits for an event, not for a time. HANG_GUARD
in parley_server.py, 300 s, only ends a test that would wait for ever. The server's time limits are
as long (PATIENT_LIMITS), unless a test is about one of them. In such a test the limited event never
comes, and nothing else must meet the limit. The fixture `figure` prints measurements, which fail no
test. Swift tests assert exact times on the virtual clock.

Files run side by side in several workers, and each worker has servers of its own. A test that keeps a
processor busy has the mark `busy`, and takes a token: see Tests/pytest_parley."""

import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from parley_server import BINARY, ROOT, ParleyServer
from recordings import goforward
from scripted_model import ScriptedModel

pytest_plugins = ["pytest_parley"]


@pytest.fixture(scope="session")
def parley():
    """A server with its embedded models only."""
    with ParleyServer() as server:
        yield server


@pytest.fixture(scope="session")
def model():
    """A chat-completions server that answers from a script."""
    with ScriptedModel() as server:
        yield server


@pytest.fixture(scope="session")
def piped(model):
    """A server that sends its turns to the scripted model."""
    environment = {"PARLEY_LLM_KEY": "the-key"}
    with ParleyServer("--llm", model.url, "--model", "scripted", **environment) as server:
        yield server


@pytest.fixture(scope="session")
def speech():
    """"go forward ten meters" as 24 kHz samples, between 300 ms and 1 s of silence."""
    return goforward()


@pytest.fixture(scope="session")
def public():
    """A folder with the binary and the models that every user may read, because the checkout itself
    may be private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        shutil.copy(BINARY, folder / "parley")
        shutil.copytree(ROOT / "models", folder / "models")
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        yield folder
