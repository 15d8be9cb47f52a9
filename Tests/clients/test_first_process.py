"""The server as a container and a hardened unit run it: as process 1, as user 65532, in folders that it
cannot write to (openab#436, nixpkgs#280588)."""

import asyncio
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from parley_server import HANG_GUARD, PATIENT_LIMITS, ROOT, ParleyServer
from realtime_session import connect
from test_mcp import TOOLS, mcp, use
from webhook_receiver import SECRET, WebhookReceiver

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
DEPLOY = ROOT / "examples/deploy"
USER = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs"]


class FirstProcess(ParleyServer):
    """Runs as process 1 of a namespace of its own."""

    def __init__(self, *arguments, **environment):
        super().__init__(*arguments, **environment)
        self.arguments[:0] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]

    @property
    def own_process(self):
        """The server's process, as this namespace numbers it."""
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(path.read_text().split()[0])

    def children(self):
        """The states of the server's children, by their ids."""
        states = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == self.own_process:
                states[int(path.parent.name)] = fields[0]
        return states

    def __exit__(self, *error):
        os.kill(self.own_process, signal.SIGTERM)
        status = self.process.wait(HANG_GUARD)
        assert status == 0, status


@pytest.mark.skipif(
    subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode != 0,
    reason="no namespaces of processes")
def test_orphans_of_programs_are_taken(model, tmp_path):
    begun = tmp_path / "begun"
    orphan = f"(sh -c 'echo $$ >> {begun}' &)"
    program = f"for n in 1 2 3 4 5; do {orphan}; done; exec \"$@\""
    configuration = tmp_path / "servers.json"
    configuration.write_text(json.dumps({"mcpServers": {
        "local": {"command": "sh", "args": ["-c", program, "sh", *TOOLS]}}}))

    async def session(parley):
        async with connect(parley) as connection:
            await use(connection, mcp("local"))

    with FirstProcess("--llm", model.url, "--mcp-config", str(configuration)) as parley:
        asyncio.run(asyncio.wait_for(session(parley), HANG_GUARD))
        end = time.monotonic() + HANG_GUARD
        # The program itself lives as long as the server.
        while len(parley.children()) > 1 or len(begun.read_text().split()) < 5:
            assert time.monotonic() < end, parley.children()
            time.sleep(0.02)


def unit_environment(name):
    """What a unit sets, and its state folder."""
    lines = (DEPLOY / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    variables = dict(value.split("=", 1) for key, value in pairs if key == "Environment")
    (folder,) = [value for key, value in pairs if key == "StateDirectory"]
    return variables, f"/var/lib/{folder}"


def image_environment():
    """What the image sets, and its volume."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    variables = dict(re.findall(r"^ENV (\S+?)=(\S+)$", text, re.MULTILINE))
    (volume,) = re.findall(r"^VOLUME (\S+)$", text, re.MULTILINE)
    assert f"--owner=65532 --group=65532 {volume}" in text and "USER 65532" in text
    return variables, volume


@pytest.mark.parametrize("place", ["parley.service", "parley@.service", "Containerfile"])
def test_webhooks_need_a_receiver_and_a_secret_and_nothing_else(place, public, tmp_path):
    variables, folder = image_environment() if place == "Containerfile" else unit_environment(place)
    state = public / "state"
    state.mkdir()
    shutil.chown(state, 65532, 65532)
    variables = {name: value.replace(folder, str(state)) for name, value in variables.items()}
    work = public / "work"
    work.mkdir(mode=0o555)
    try:
        with WebhookReceiver() as receiver:
            server = ParleyServer("--webhook-url", receiver.url)
            server.arguments[0] = str(public / "parley")
            server.arguments = [*USER, "--", "env", "-C", str(work), *server.arguments]
            server.environment = {
                "PATH": os.environ["PATH"], **PATIENT_LIMITS, **variables,
                "PARLEY_WEBHOOK_SECRET": SECRET}
            with server:
                assert server.talk("--text", "hello").returncode == 0
                receiver.wait(lambda: len(receiver.events) == 3, HANG_GUARD)
        assert os.listdir(work) == []
    finally:
        shutil.rmtree(state)
        shutil.rmtree(work)
