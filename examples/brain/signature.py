"""Checks that a request comes from Parley: the JWT in `X-Parley-Signature`.

Parley signs every request (ES256, at most 60 s) and publishes its keys at `/.well-known/jwks.json`.
The token names the session, the turn and the caller, so an agent can trust them. It is not in
`Authorization`, because that header carries the agent's own API key.
"""

import dataclasses
import functools
import os
import uuid

import jwt
from fastapi import HTTPException, Request

# Clocks of two machines may differ by this many seconds.
LEEWAY = 10
REQUIRED = ["aud", "exp", "iat", "iss", "jti", "sid", "turn"]


@dataclasses.dataclass(frozen=True)
class Caller:
    """Whose turn it is."""

    session: str
    turn: str
    subject: str | None = None


@functools.cache
def keys(url):
    """Parley's public keys. They are fetched again when a token names an unknown one, because Parley
    rotates them."""
    return jwt.PyJWKClient(url)


def caller(request: Request) -> Caller:
    """The caller of a request. 401 where the signature is missing, old, or of another server.

    Without `--require-signature` the plain headers are believed. That is right only for an agent
    that no other program can reach."""
    url, headers = os.environ.get("PARLEY_JWKS"), request.headers
    if not url:
        # Without a session the turn is a conversation of its own: it shares no memory.
        session = headers.get("x-parley-session") or f"none_{uuid.uuid4()}"
        return Caller(session, headers.get("x-parley-turn", ""))
    token = headers.get("x-parley-signature", "")
    try:
        claims = jwt.decode(
            token, keys(url).get_signing_key_from_jwt(token), algorithms=["ES256"],
            issuer="parley", audience=os.environ["BRAIN_AUDIENCE"], leeway=LEEWAY,
            options={"require": REQUIRED},
        )
    except jwt.PyJWTError as error:
        raise HTTPException(401, f"no valid signature of Parley: {error}") from error
    return Caller(claims["sid"], claims["turn"], claims.get("sub"))


def add_options(parser):
    """The options that both brains have."""
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--require-signature", metavar="URL", help="Parley's /.well-known/jwks.json: answer only "
        "requests that it has signed",
    )
    parser.add_argument("--audience", help="the url that Parley has for this agent")
    parser.add_argument("--model", help="a real model instead of the rules, as openai:gpt-5")


def read_options(parser):
    """Reads the options, and hands them to the app in the environment."""
    options = parser.parse_args()
    if options.require_signature and not options.audience:
        parser.error("--require-signature needs --audience")
    for name, value in (
        ("PARLEY_JWKS", options.require_signature), ("BRAIN_AUDIENCE", options.audience),
        ("BRAIN_MODEL", options.model),
    ):
        if value:
            os.environ[name] = value
    return options
