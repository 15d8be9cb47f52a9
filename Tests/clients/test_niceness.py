"""The niceness of the server's threads as the kernel reports it: workers, which run models, have a
lower priority than the event loops, whatever the server's own niceness."""

import asyncio
import contextlib
import json
import pathlib
import sys
import time

import pytest
from parley_server import HANG_GUARD, ParleyServer
from realtime_session import connect


def niceness(task):
    """The name and the niceness of a thread or process (proc_pid_stat(5), fields 2 and 19)."""
    stat = (task / "stat").read_text()
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    return name, int(stat[stat.rindex(")") + 1 :].split()[16])


@contextlib.contextmanager
def nice_server(added, *arguments):
    server = ParleyServer(*arguments)
    server.arguments[:0] = ["nice", "-n", str(added)]
    with server:
        yield server


def threads(server, count, workers):
    """The threads of a server, once it has `count` of them and `workers` workers."""
    folder = pathlib.Path("/proc", str(server.process.pid), "task")
    deadline = time.monotonic() + HANG_GUARD
    while True:
        found = []
        for task in folder.iterdir():
            # A thread may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.append(niceness(task))
        if len(found) >= count and sum(name == "worker" for name, _ in found) == workers:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


@pytest.mark.parametrize("added, workers", [(0, 5), (10, 15), (17, 19)])
def test_workers_are_nicer_than_event_loops_by_five(added, workers):
    before = niceness(pathlib.Path("/proc/self"))[1]
    if before:
        pytest.skip(f"the tests run at niceness {before}")
    with nice_server(added, "--shards", "2", "--worker-threads", "3") as server:
        # The main thread, two event loops, three workers, and one that waits for signals.
        found = threads(server, 7, 3)
    for name, value in found:
        assert value == (workers if name == "worker" else added), found


def test_programs_of_mcp_servers_are_as_nice_as_the_server(tmp_path):
    """The program reports its own niceness; that of the thread that talks to it is read from the
    kernel."""
    told = tmp_path / "niceness"
    program = tmp_path / "program.py"
    program.write_text(
        "import os, pathlib, sys\n"
        f"path = pathlib.Path({str(told)!r})\n"
        "path.with_suffix('.new').write_text(str(os.nice(0)))\n"
        "path.with_suffix('.new').rename(path)\n"
        "sys.stdin.read()\n"
    )
    configuration = tmp_path / "servers.json"
    configuration.write_text(json.dumps({
        "mcpServers": {"local": {"command": sys.executable, "args": [str(program)]}}
    }))

    async def use(server):
        async with connect(server) as session:
            tool = {"type": "mcp", "server_label": "local", "require_approval": "never"}
            await session.update(tools=[tool])
            while not told.exists():
                await asyncio.sleep(0.02)
            return threads(server, 1, 1)

    own = niceness(pathlib.Path("/proc/self"))[1]
    arguments = ["--mcp-config", str(configuration), "--worker-threads", "1"]
    with nice_server(3, *arguments) as server:
        found = asyncio.run(asyncio.wait_for(use(server), HANG_GUARD))
    expected = min(19, own + 3)
    assert int(told.read_text()) == expected
    assert [value for name, value in found if name == "child"] == [expected]
