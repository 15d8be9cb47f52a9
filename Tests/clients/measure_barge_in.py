"""Measures how soon an agent's connection closes after an interruption, on one machine: from the
client's `response.cancel`, and from the arrival of `input_audio_buffer.speech_started` at the client,
to the end of the stream at the agent. The client and the agent share a process and its clock.

    .venv-tests/bin/python Tests/clients/measure_barge_in.py [COUNT]
"""

import asyncio
import sys
import time

from closing_agent import ClosingAgent
from parley_server import ParleyServer
from realtime_session import append, connect
from recordings import goforward


async def cancelled(server, agent):
    async with connect(server) as session:
        await session.update(output_modalities=["text"])
        await session.say("hello")
        await session.connection.response.create()
        await session.until("response.output_text.delta")
        start = time.monotonic()
        await session.connection.response.cancel()
        return await agent.closed.get() - start


async def spoken(server, agent):
    detection = {"type": "server_vad", "create_response": False}
    async with connect(server) as session:
        await session.update(
            output_modalities=["audio"], audio={"input": {"turn_detection": detection}})
        await session.say("hello")
        await session.connection.response.create()
        await session.until("response.output_audio.delta")
        speech = asyncio.create_task(append(session, goforward()))
        await session.until("input_audio_buffer.speech_started")
        start = time.monotonic()
        took = await agent.closed.get() - start
        await speech
        return took


def row(name, seconds):
    """Milliseconds; below zero, the agent saw it before the client did."""
    seconds.sort()
    at = [seconds[len(seconds) // 2], seconds[min(len(seconds) * 99 // 100, len(seconds) - 1)]]
    figures = [f"{1_000 * value:.1f}" for value in (*at, seconds[-1])]
    return f"| {name} | {len(seconds)} | {' | '.join(figures)} |"


async def main(count):
    goforward()
    print("| interrupted by | times | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|")
    async with ClosingAgent() as agent:
        with ParleyServer("--llm", agent.url, "--min-interruption-ms", "0") as server:
            for name, measure in [("response.cancel", cancelled), ("speech_started", spoken)]:
                await measure(server, agent)  # The models of speech are loaded.
                print(row(name, [await measure(server, agent) for _ in range(count)]))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
