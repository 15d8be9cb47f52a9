"""An MCP server made with the protocol's own Python library, with a tool for every case. It uses
stdio, or streamable HTTP if a port is given; with `json` it answers JSON instead of event
streams."""

import os
import pathlib
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("parley-tests")
TRACE = os.environ.get("MCP_TRACE")
# One event for each call of `meet` that waits for the others.
MEETING = []


def trace(line):
    """Writes a line to the file that the test reads."""
    if TRACE:
        with open(TRACE, "a", encoding="utf-8") as file:
            file.write(line + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("out of luck")


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        trace("slow was cancelled")
        raise
    return "at last"


@server.tool()
async def meet(count: int) -> str:
    """Answers once so many calls of it run at the same time."""
    MEETING.append(anyio.Event())
    if len(MEETING) >= count:
        for arrived in MEETING:
            arrived.set()
        MEETING.clear()
    else:
        await MEETING[-1].wait()
    return "all here"


@server.tool()
def big(size: int) -> str:
    """Says much."""
    return "x" * size


@server.tool()
def drop(table: str) -> str:
    """Drops a table."""
    trace(f"dropped {table}")
    return f"dropped {table}"


@server.tool()
def headers(ctx: Context) -> str:
    """Says what it was sent."""
    sent = ctx.headers or {}
    return f"{sent.get('authorization')} {sent.get('x-tenant')}"


@server.tool()
def process() -> str:
    """Names its process."""
    return str(os.getpid())


if __name__ == "__main__":
    if TRACE:
        trace(f"started {os.getpid()}")
    if len(sys.argv) > 1:
        server.run(
            "streamable-http", host="127.0.0.1", port=int(sys.argv[1]),
            json_response="json" in sys.argv[2:],
        )
    else:
        # A line that is no message must not disturb the messages.
        print("this is no message", flush=True)
        server.run("stdio")
    trace(f"ended in {pathlib.Path.cwd()}")
