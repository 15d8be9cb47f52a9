"""An MCP server made with the protocol's own Python library, with a tool for every case. It uses
stdio, or streamable HTTP if a port is given; with `json` it answers JSON instead of event
streams. It speaks the stateless revision of 2026-07-28 to a client that does."""

import os
import pathlib
import sys

from typing import Annotated

import anyio
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve
from mcp.types import ListRootsResult, ToolAnnotations
from pydantic import BaseModel, Field

# How long a client may keep the list of tools.
LIST_TTL = CacheHint(ttl_ms=int(os.environ.get("MCP_LIST_TTL_MS", "0")))
server = MCPServer("parley-tests", cache_hints={"tools/list": LIST_TTL})
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
        trace(f"slow {seconds:.0f} has begun")
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        trace(f"slow {seconds:.0f} was cancelled")
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


@server.tool()
def protocol(ctx: Context) -> str:
    """Names the form of the request."""
    sent = ctx.headers or {}
    return f"{sent.get('mcp-protocol-version')} {sent.get('mcp-method')}"


REGION = Field(json_schema_extra={"x-mcp-header": "Region"})
COUNT = Field(json_schema_extra={"x-mcp-header": "Count"})


@server.tool()
def near(region: Annotated[str, REGION], ctx: Context, count: Annotated[int, COUNT] = 1) -> str:
    """Repeats its arguments, and the header fields that they were sent in."""
    sent = ctx.headers or {}
    return f"{region} {sent.get('mcp-param-region')} {count} {sent.get('mcp-param-count')}"


class Cup(BaseModel):
    """What the user is asked for."""

    size: str = Field(description="small or large")
    sugar: bool = False


def ask_for_cup(drink: str) -> Elicit[Cup]:
    """Asks the user."""
    return Elicit(f"Which size of {drink}?", Cup)


@server.tool()
def order(drink: str, cup: Annotated[Cup, Resolve(ask_for_cup)]) -> str:
    """Orders a drink, and asks the user for the rest."""
    trace(f"ordered {cup.size} {drink}")
    return f"{cup.size} {drink}{' with sugar' if cup.sugar else ''}"


def ask_for_folders() -> ListRoots:
    """Asks for something that a conversation does not have."""
    return ListRoots()


@server.tool()
def search(folders: Annotated[ListRootsResult, Resolve(ask_for_folders)]) -> str:
    """Searches the client's folders."""
    return str(len(folders.roots))


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
