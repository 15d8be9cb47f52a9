"""Speech over a reply, with the embedded recogniser: a nod does not stop it, a command does. The embedded
voice says both."""

import base64

from parley_server import ParleyServer
from realtime_session import append, connect, run
from scripted_model import ScriptedModel


async def spoken(server, words):
    """The words in the embedded voice, with silence behind them."""
    async with connect(server) as session:
        await session.say("write " + words)
        events = await session.respond()
    deltas = [event.delta for event in events if event.type == "response.output_audio.delta"]
    return b"".join(base64.b64decode(delta) for delta in deltas) + bytes(2 * 24 * 1_500)


def test_a_nod_does_not_stop_a_reply_and_a_command_does():
    async def test():
        with ScriptedModel() as model, ParleyServer("--llm", model.url) as server:
            nod = await spoken(server, "Okay, I see.")
            stop = await spoken(server, "Stop. Wait a moment.")
            async with connect(server) as session:
                await session.update(
                    audio={"input": {
                        "transcription": {"model": "any"},
                        "turn_detection": {"type": "server_vad", "create_response": False}}})
                await session.say("story")
                await session.connection.response.create()
                await session.until("response.output_audio.delta")
                await append(session, nod)
                await session.until("conversation.item.input_audio_transcription.completed")
                # Nothing more than the reply's end could come before its next audio.
                await session.until("response.output_audio.delta")
                assert not session.of("response.done")
                await append(session, stop)
                done = (await session.until("response.done")).response
                assert done.status == "cancelled"
                assert done.status_details.reason == "turn_detected"

    run(test())
