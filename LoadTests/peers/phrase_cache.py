"""Measures what the phrase cache saves: of a reply whose words are always the same, and of the calls of
a hotel's reception, whose agent greets, confirms, fills pauses, and names guests, dates and prices.
CPU time is the whole server's, with the embedded voice. Needs the Python environment of
`make test-clients`.

    .venv-tests/bin/python LoadTests/peers/phrase_cache.py

Options: --calls 60  --at-once 10  --only same|calls. Prints a table.
"""

import argparse
import asyncio
import json
import random

from bench_server import BenchServer
from scripted_services import ScriptedServices
from websockets.asyncio.client import connect

SESSIONS, REPLIES = 10, 10
SAME = "Hello, this is the reception of the hotel by the lake. How may I help you today?"

NAMES = ("Anna Bernard Carla David Elena Francis Greta Hugo Irene Jacob Karin Louis Maria Nicolas Olga "
         "Peter Quentin Rosa Simon Teresa Urban Vera Walter Xenia Yvonne Zoe").split()
FAMILIES = ("Adams Baker Carter Dixon Evans Foster Graham Harris Irving Jackson Keller Lambert Mason "
            "Newman Olsen Parker Quinn Rogers Sanders Turner Underwood Vincent Walker Young").split()
MONTHS = ("January February March April May June July August September October November "
          "December").split()
FILLERS = ["One moment, please.", "Let me check that for you.", "Sure, I can help you with that.",
           "Just a second, I am looking it up.", "Of course."]
ROOMS = ["single room", "double room", "double room with a view of the lake", "family room"]
# The turns of a call, in their order. A call leaves some of them out.
CALL = [
    (1.0, "Thank you for calling the hotel by the lake, this is Anna. How can I help you today?"),
    (0.9, "{filler} For which dates would you like the room?"),
    (0.8, "{filler} From the {day} of {month} to the {later} of {month}. For how many people?"),
    (0.8, "{filler} I have a {room} for {price} euros a night. Breakfast is included. Would you like to "
          "book it?"),
    (0.3, "I am sorry, I did not catch that. Could you say it again, please?"),
    (0.7, "Great. May I have your name, please?"),
    (0.7, "Thank you, {name} {family}. And your telephone number, please?"),
    (0.6, "So that is {digits}. Is that right?"),
    (0.4, "Check-in is from three in the afternoon, and check-out is until eleven. "
          "Parking is free for our guests."),
    (0.7, "Thank you. Your booking number is {number}. You will get a confirmation by e-mail."),
    (0.9, "Is there anything else I can do for you?"),
    (1.0, "Thank you for calling, {name}. Have a nice day. Goodbye!"),
]


def call(draw):
    """The agent's replies in one call."""
    day = draw.randint(1, 25)
    facts = {
        "name": draw.choice(NAMES), "family": draw.choice(FAMILIES), "day": f"{day}",
        "later": f"{day + draw.randint(1, 5)}", "month": draw.choice(MONTHS),
        "room": draw.choice(ROOMS), "price": draw.randrange(70, 240, 10),
        "digits": ", ".join(str(draw.randint(100, 999)) for _ in range(3)),
        "number": draw.randint(100_000, 999_999),
    }
    for share, text in CALL:
        if draw.random() < share:
            yield text.format(filler=draw.choice(FILLERS), **facts)


async def listen(server, format_type, replies):
    """One session; returns the seconds of its replies."""
    output = {"format": {"type": format_type}, "transport": "binary"}
    audio = {"input": {"turn_detection": None}, "output": output}
    seconds = 0
    async with connect(server.url, proxy=None, max_size=None) as link:
        session = {"type": "realtime", "audio": audio}
        await link.send(json.dumps({"type": "session.update", "session": session}))
        for text in replies:
            content = [{"type": "input_text", "text": text}]
            item = {"type": "message", "role": "user", "content": content}
            # Outside the conversation: the reply is the text, and no earlier turn changes it.
            response = {"conversation": "none", "input": [item]}
            await link.send(json.dumps({"type": "response.create", "response": response}))
            while True:
                message = await link.recv()
                if isinstance(message, bytes):
                    # A message is a packet of 20 ms, or samples at 24 kHz.
                    seconds += 0.02 if format_type == "audio/opus" else len(message) / 48_000
                elif (event := json.loads(message))["type"] == "response.done":
                    if event["response"]["status"] != "completed":
                        raise RuntimeError(f"a reply failed: {event}")
                    break
    return seconds


async def measure(services, script, format_type, cache_bytes, at_once):
    """Runs sessions with their replies; returns a row's figures."""
    arguments = [
        "--shards", 1, "--phrase-cache-bytes", cache_bytes, "--playout-lead-ms", 60_000,
        "--llm-url", services.url, "--model", "script", "--log-level", "error"]
    with BenchServer(".build/release/parley", *arguments) as server:
        # The voice is loaded.
        await listen(server, format_type, ["It begins."])
        places = asyncio.Semaphore(at_once)

        async def one(replies):
            async with places:
                return await listen(server, format_type, replies)

        cpu, before = server.cpu_seconds(), await asyncio.to_thread(server.metrics)
        seconds = sum(await asyncio.gather(*[one(replies) for replies in script]))
        cpu, after = server.cpu_seconds() - cpu, await asyncio.to_thread(server.metrics)

    def count(result):
        name = f'parley_phrases_total{{result="{result}"}}'
        return after.get(name, 0) - before.get(name, 0)

    replies = sum(len(replies) for replies in script)
    hits, misses = count("hit"), count("miss")
    kept = after.get("parley_phrase_cache_bytes", 0)
    return (f"{1000 * cpu / replies:.1f} ms | {seconds / replies:.1f} s "
            f"| {100 * hits / max(1, hits + misses):.0f}% of {hits + misses:.0f} | {kept / 1000:.0f} kB")


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--only", choices=["same", "calls"])
    options = parser.parse_args()
    scripts = {
        "same": [[SAME] * REPLIES for _ in range(SESSIONS)],
        "calls": [list(call(random.Random(index))) for index in range(options.calls)],
    }
    print("| replies | format | cache | CPU a reply | length | phrases found | kept |")
    print("|---|---|---|---|---|---|---|")
    async with ScriptedServices() as services:
        for name, script in scripts.items():
            if options.only not in (None, name):
                continue
            for format_type in ["audio/opus", "audio/pcm"]:
                for cache_bytes in [0, 256 << 10, 4 << 20]:
                    figures = await measure(
                        services, script, format_type, cache_bytes, options.at_once)
                    print(f"| {name} | {format_type} | {cache_bytes >> 10} KiB | {figures} |",
                          flush=True)


asyncio.run(main())
