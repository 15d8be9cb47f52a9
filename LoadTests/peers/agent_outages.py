"""Measures what an agent's trouble costs the callers: 200 conversations go on while the agent is
killed, hangs, refuses with 429, and while the keys that sign Parley's requests are replaced.

The agent is the one of examples/brain (FastAPI and LangGraph, with the check of the signature). Each
conversation asks for a short story about every eight seconds, and the story is streamed for about half
a second. Needs the Python environments of `make test-clients`.

    .venv-tests/bin/python LoadTests/peers/agent_outages.py [--conversations 200]

Prints one table: without a fallback, and with a second agent as fallback. A turn is lost where its
response fails, also after its first words. "Last lost" is the time from the beginning of the trouble
to the moment in which the last of the lost turns was asked."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRAIN_PYTHON = ROOT / ".venv-tests/bin/python"
PARLEY, AGENT, FALLBACK = 19_270, 19_271, 19_272
SENTENCES = 40
QUIET, TROUBLE, AFTER = 15, 10, 20
UNTIL_A_NEW_KEY_SIGNS = 300


# MARK: The agent, in a process of its own


def serve_agent(port):
    """The example's agent, which also can be told to answer 429 for some seconds."""
    sys.path.insert(0, str(ROOT / "examples/brain"))
    import chat_brain
    import uvicorn
    from starlette.responses import JSONResponse, Response

    del chat_brain.STORY[SENTENCES:]
    refusing_until = 0.0

    @chat_brain.app.middleware("http")
    async def refuse(request, call_next):
        nonlocal refusing_until
        if request.url.path == "/refuse":
            refusing_until = time.monotonic() + float(request.query_params["seconds"])
            return Response(status_code=204)
        if time.monotonic() < refusing_until and request.url.path.endswith("completions"):
            return JSONResponse(
                {"error": {"message": "Too many requests.", "code": "rate_limit_exceeded"}}, 429,
                {"Retry-After": "1"})
        return await call_next(request)

    uvicorn.run(chat_brain.app, host="127.0.0.1", port=port, log_level="warning")


class Agent:
    """A process of the agent, which can be killed and started again."""

    def __init__(self, port):
        self.port = port
        self.process = None

    def start(self):
        environment = os.environ | {
            "PARLEY_JWKS": f"http://127.0.0.1:{PARLEY}/.well-known/jwks.json",
            "BRAIN_AUDIENCE": f"http://127.0.0.1:{self.port}/v1",
        }
        self.process = subprocess.Popen(
            [BRAIN_PYTHON, __file__, "--serve-agent", str(self.port)], env=environment)
        wait_for(f"http://127.0.0.1:{self.port}/docs")

    def refuse(self, seconds):
        url = f"http://127.0.0.1:{self.port}/refuse?seconds={seconds}"
        urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10).close()


def wait_for(url):
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.1)


# MARK: The callers


@dataclasses.dataclass
class Turn:
    """One turn: when it was asked, how long it took to the first word, and how it ended."""

    asked: float
    first_word: float | None = None
    status: str = "none"


async def converse(turns, until):
    """One conversation."""
    from websockets.asyncio.client import connect

    url = f"ws://127.0.0.1:{PARLEY}/v1/realtime?model=agent"
    async with connect(url, max_size=None, ping_timeout=None) as link:
        await link.recv()
        session = {"type": "realtime", "output_modalities": ["text"]}
        await link.send(json.dumps({"type": "session.update", "session": session}))
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(6, 10))
            turn = Turn(time.monotonic())
            turns.append(turn)
            content = [{"type": "input_text", "text": "Tell me a story"}]
            item = {"type": "message", "role": "user", "content": content}
            await link.send(json.dumps({"type": "conversation.item.create", "item": item}))
            await link.send(json.dumps({"type": "response.create"}))
            async for message in link:
                event = json.loads(message)
                if event["type"] == "response.output_text.delta" and turn.first_word is None:
                    turn.first_word = time.monotonic() - turn.asked
                if event["type"] == "response.done":
                    turn.status = event["response"]["status"]
                    for made in event["response"]["output"]:
                        # The conversation stays short, so that all turns cost alike.
                        await link.send(json.dumps(
                            {"type": "conversation.item.delete", "item_id": made["id"]}))
                    break


# MARK: The troubles


async def kill(agent, parley, keys):
    """Killed with SIGKILL, and started again three seconds later, as by a supervisor."""
    agent.process.kill()
    await asyncio.to_thread(agent.process.wait)
    await asyncio.sleep(3)
    await asyncio.to_thread(agent.start)


async def hang(agent, parley, keys):
    """Stopped for ten seconds: connections are accepted, and nothing is answered."""
    agent.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(TROUBLE)
    agent.process.send_signal(signal.SIGCONT)


async def refuse(agent, parley, keys):
    """429 with Retry-After: 1 for ten seconds."""
    await asyncio.to_thread(agent.refuse, TROUBLE)
    await asyncio.sleep(TROUBLE)


async def rotate(agent, parley, keys):
    """The file has another key, and SIGHUP: the key is published, and signs after five minutes."""
    write_keys(keys)
    parley.send_signal(signal.SIGHUP)
    await asyncio.sleep(UNTIL_A_NEW_KEY_SIGNS + 1)


def write_keys(path):
    """A file with one new key."""
    new = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        check=True, capture_output=True).stdout
    path.write_bytes(new)


TROUBLES = {"killed, back after 3 s": kill, "hangs for 10 s": hang, "429 for 10 s": refuse}
# A key concerns every agent alike, and takes five minutes.
RUNS = [
    *(("alone", *trouble) for trouble in TROUBLES.items()),
    *(("with a fallback", *trouble) for trouble in TROUBLES.items()),
    ("alone", "key replaced", rotate),
]


async def measure(count, trouble, agent, parley, keys):
    """One run: quiet, trouble, quiet. Returns the turns, and when the trouble began and ended."""
    turns = []
    until = time.monotonic() + QUIET + AFTER
    until += UNTIL_A_NEW_KEY_SIGNS if trouble is rotate else TROUBLE
    callers = [asyncio.create_task(converse(turns, until)) for _ in range(count)]
    await asyncio.sleep(QUIET)
    began = time.monotonic()
    await trouble(agent, parley, keys)
    ended = time.monotonic()
    await asyncio.gather(*callers)
    return turns, began, ended


def parley_command(binary, keys, has_fallback):
    """Parley with the agent as its only provider, or with a second agent as fallback."""
    first = f"name=agent url=http://127.0.0.1:{AGENT}/v1 models=*"
    command = [binary, "serve", "--port", str(PARLEY), "--sign-requests", "true",
               "--signing-key-file", str(keys), "--log-level", "error"]
    if not has_fallback:
        return [*command, "--providers", first]
    second = f"name=other url=http://127.0.0.1:{FALLBACK}/v1"
    return [*command, "--providers", f"{first} fallback=other,{second}",
            "--llm-first-token-timeout-ms", "2000"]


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def row(setting, name, turns, began, ended):
    """A row of the table."""
    during = [t for t in turns if t.asked >= began - 1]
    lost = [t for t in turns if t.status != "completed"]
    quiet = [t.first_word for t in turns if t.first_word and t.asked < began - 1]
    waits = [t.first_word for t in during if t.first_word]
    last = f"{max(t.asked for t in lost) - began:.1f} s" if lost else "–"
    return (
        f"| {setting} | {name} | {ended - began:.1f} s | {len(during):,} | {len(lost)} | {last} | "
        f"{1000 * quantile(quiet, 0.5):.0f} / {1000 * quantile(quiet, 0.99):.0f} | "
        f"{1000 * quantile(waits, 0.99):.0f} / {1000 * max(waits, default=0):.0f} |")


def run(options):
    from websockets.asyncio import client  # noqa: F401  (fails early without the environment)

    print("| agent | trouble | lasts | turns from then on | lost | last lost asked after "
          "| first word before, p50 / p99 ms | first word from then on, p99 / max ms |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for setting, name, trouble in RUNS:
        run_one(options, setting, name, trouble)


def run_one(options, setting, name, trouble):
    """One row: a server and its agents from their start to their end."""
    has_fallback = setting != "alone"
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys.pem"
        write_keys(keys)
        parley = subprocess.Popen(
            parley_command(options.binary, keys, has_fallback), stdout=subprocess.DEVNULL)
        agents = [Agent(AGENT)] + ([Agent(FALLBACK)] if has_fallback else [])
        try:
            wait_for(f"http://127.0.0.1:{PARLEY}/healthz")
            for agent in agents:
                agent.start()
            outcome = asyncio.run(
                measure(options.conversations, trouble, agents[0], parley, keys))
            print(row(setting, name, *outcome), flush=True)
        finally:
            for process in [parley, *(agent.process for agent in agents)]:
                if process:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--binary", default=ROOT / ".build/release/parley")
    parser.add_argument("--serve-agent", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve_agent:
        serve_agent(chosen.serve_agent)
    else:
        run(chosen)
