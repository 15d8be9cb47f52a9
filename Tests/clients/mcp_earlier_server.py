"""An MCP server of the revisions with a handshake, made with version 1 of the protocol's Python
library. It uses stdio, or streamable HTTP if a port is given; `json` answers JSON instead of event
streams, `stateless` keeps no sessions."""

import os
import sys

from mcp.server.fastmcp import Context, FastMCP

OPTIONS = sys.argv[2:]
server = FastMCP(
    "parley-earlier", host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 0,
    json_response="json" in OPTIONS, stateless_http="stateless" in OPTIONS,
)


@server.tool()
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("out of luck")


@server.tool()
def protocol(ctx: Context) -> str:
    """Names the form of the request."""
    sent = ctx.request_context.request.headers
    return f"{sent.get('mcp-protocol-version')} {sent.get('mcp-method')}"


@server.tool()
def process() -> str:
    """Names its process."""
    return str(os.getpid())


if __name__ == "__main__":
    server.run("streamable-http" if len(sys.argv) > 1 else "stdio")
