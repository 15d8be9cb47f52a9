"""What an agent sees of an interruption: its connection closes at once, before its next word. How fast
that is, `measure_barge_in.py` measures; no test depends on it."""

import asyncio

import pytest
from closing_agent import ClosingAgent
from parley_server import HANG_GUARD, ParleyServer
from realtime_session import append, connect, run
from test_ledger import only_listening


async def by_cancel(session, speech):
    """The client cancels the response."""
    await session.update(output_modalities=["text"])
    await session.say("hello")
    await session.connection.response.create()
    await session.until("response.output_text.delta")
    await session.connection.response.cancel()
    return "client_cancelled"


async def by_speech(session, speech):
    """The user speaks over the reply."""
    await session.update(
        output_modalities=["audio"],
        audio={"input": {"turn_detection": {"type": "server_vad", "create_response": False}}})
    await session.say("hello")
    await session.connection.response.create()
    await session.until("response.output_audio.delta")
    await append(session, speech)
    await session.until("input_audio_buffer.speech_started")
    return "turn_detected"


async def by_leaving(session, speech):
    """The client closes its session."""
    await session.update(output_modalities=["text"])
    await session.say("hello")
    await session.connection.response.create()
    await session.until("response.output_text.delta")
    await session.connection.close()


@pytest.mark.parametrize("interrupt", [by_cancel, by_speech, by_leaving])
def test_the_agents_connection_closes_before_its_next_word(interrupt, speech, tmp_path):
    # Speech interrupts without being recognised, so the recogniser is not loaded.
    options = ["--min-interruption-ms", "0", *only_listening(tmp_path)]

    async def test():
        async with ClosingAgent() as agent:
            with ParleyServer("--llm", agent.url, *options) as server:
                async with connect(server) as session:
                    assert agent.closed.empty()
                    reason = await interrupt(session, speech)
                    await asyncio.wait_for(agent.closed.get(), HANG_GUARD)
                    if reason:
                        done = (await session.until("response.done")).response
                        assert done.status == "cancelled"
                        assert done.status_details.reason == reason

    run(test())
