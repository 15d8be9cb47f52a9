"""The server as the user `nobody`, in a read-only folder without a home: a whole spoken turn, and
one line for each file that it cannot read."""

import os
import shutil
import subprocess

import pytest
from parley_server import HANG_GUARD, PATIENT_LIMITS, ParleyServer, free_port
from recordings import DATA, convert

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]


@pytest.fixture
def folder(public):
    """A folder that its reader cannot write to."""
    path = public / "folder"
    path.mkdir()
    path.chmod(0o555)
    yield path
    shutil.rmtree(path)


class UnprivilegedServer(ParleyServer):
    """Runs as the user `nobody` in a folder, with only the given environment and patient limits."""

    def __init__(self, folder, *arguments, **environment):
        super().__init__(*arguments)
        self.arguments[0] = str(folder.parent / "parley")
        self.arguments = [*NOBODY, "--", "env", "-C", str(folder), *self.arguments]
        self.environment = {"PATH": os.environ["PATH"], **PATIENT_LIMITS, **environment}


def test_a_spoken_turn_as_nobody(folder, tmp_path):
    """Takes as long as the recording, which `parley talk` sends as a microphone would."""
    recording = convert(DATA / "goforward.raw", tmp_path / "said.wav")
    reply = tmp_path / "reply.wav"
    with UnprivilegedServer(
        folder, "--models", str(folder.parent / "models"), "--playout-lead-ms", "60000",
        TMPDIR="/root", XDG_CACHE_HOME="/root",
    ) as server:
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
            assert "Uid:\t65534\t65534\t65534\t65534\n" in status.readlines()
        (turn,) = server.turns("--wav", str(recording), "--out", str(reply))
        assert "orward" in turn["heard"] and reply.stat().st_size > 10_000
        assert os.listdir(folder) == []
        log = server.log_path.read_text(encoding="utf-8")
        assert " error " not in log and "denied" not in log


def test_models_that_cannot_be_read_are_named_at_the_start(folder, tmp_path):
    (tmp_path / "models").mkdir(0o700)
    with UnprivilegedServer(folder, "--models", str(tmp_path / "models")) as server:
        log = server.log_path.read_text(encoding="utf-8")
        assert log.count("no speech recognition") == 1 and "Permission denied" in log
        assert server.get("/readyz")[0] == 200


@pytest.mark.parametrize(
    "option", ["--tls-key", "--tls-cert", "--api-keys-file", "--jwt-keys-file", "--mcp-config",
               "--service-ca", "--config"])
def test_a_file_that_cannot_be_read_is_named_in_one_line(folder, option):
    folder.chmod(0o755)
    path = folder / "secret"
    path.touch(0o600)
    other = folder / "public"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=localhost", "-keyout", other, "-out", other],
        check=True, capture_output=True)
    other.chmod(0o644)
    beside = {"--tls-key": ["--tls-cert", other], "--tls-cert": ["--tls-key", other]}
    done = subprocess.run(
        [*NOBODY, "--", folder.parent / "parley", "serve", "--port", str(free_port()),
         "--log-level", "error", option, path, *beside.get(option, [])],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False, cwd=folder)
    assert done.returncode not in (0, -6, -11), done
    assert done.stderr.count("\n") == 1 and str(path) in done.stderr, done
