"""How much one caller can take from the others when the embedded recogniser's queue is full."""

import asyncio
import contextlib

import pytest
from parley_server import PATIENT_WEBSOCKET, ParleyServer
from raw_session import RawSession
from recordings import goforward
from websockets.asyncio.client import connect

pytestmark = pytest.mark.busy

ATTACKER, VICTIM = "sk-attacker-0123456789abcdef", "sk-victim-0123456789abcdef"
COMPLETED = "conversation.item.input_audio_transcription.completed"
FAILED = "conversation.item.input_audio_transcription.failed"
PIECE = 48_000


class Speaker(RawSession):
    """A session that commits its turns itself and only has them transcribed."""

    async def begin(self):
        audio = {"input": {"format": {"type": "audio/pcm", "rate": 24_000},
                           "turn_detection": None, "transcription": {"model": "embedded"}}}
        await self.send("session.update", session={"type": "realtime", "audio": audio})
        await self.until("session.updated")

    async def commit(self, audio):
        """Sends speech and commits it, which starts its transcription."""
        for start in range(0, len(audio), PIECE):
            await self.connection.send(audio[start : start + PIECE])
        await self.send("input_audio_buffer.commit")


@contextlib.asynccontextmanager
async def speaker(server, key):
    headers = {"Authorization": f"Bearer {key}"}
    async with connect(
        server.realtime_url, additional_headers=headers, proxy=None, max_size=None,
        **PATIENT_WEBSOCKET,
    ) as connection:
        session = Speaker(connection)
        await session.begin()
        yield session


async def attack(server, audio, refused):
    """Keeps four short turns waiting for their transcript, for the duration of the test."""
    async with speaker(server, ATTACKER) as session:
        for _ in range(4):
            await session.commit(audio)
        while True:
            event = await session.until(COMPLETED, FAILED)
            if event["type"] == FAILED:
                assert event["error"]["code"] == "server_overloaded"
                refused.set()
                # Pauses briefly to save CPU; a free place lasts less time than this.
                await asyncio.sleep(0.2)
            await session.commit(audio)


def counts(server):
    """The metrics of the workers."""
    metrics = server.get("/metrics", {"Authorization": f"Bearer {VICTIM}"})[2].decode()
    lines = [line.split() for line in metrics.splitlines() if line.startswith("parley_worker")]
    return {name: float(value) for name, value in lines}


async def turns_beside_attackers(server):
    """The outcome of a victim's turns, each begun just after an attacker was refused: three, and
    more until one has evicted an attacker's turn, because a place may have become free meanwhile."""
    audio, refused, outcomes = goforward(), asyncio.Event(), []
    words = audio[PIECE // 2 :][: PIECE * 8 // 10]
    attackers = [asyncio.create_task(attack(server, words, refused)) for _ in range(12)]
    async with speaker(server, VICTIM) as victim:
        for _ in range(50):
            refused.clear()
            waiting = asyncio.create_task(refused.wait())
            await asyncio.wait([waiting, *attackers], return_when=asyncio.FIRST_COMPLETED)
            assert waiting.done(), [task.exception() for task in attackers if task.done()]
            await victim.commit(audio)
            outcomes.append(await victim.until(COMPLETED, FAILED))
            if len(outcomes) >= 3 and counts(server)["parley_worker_evicted_jobs_total"]:
                break
    for task in attackers:
        task.cancel()
    await asyncio.gather(*attackers, return_exceptions=True)
    return outcomes


def test_one_key_does_not_take_speech_recognition_from_another(tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{ATTACKER} name=attacker\n{VICTIM} name=victim operator\n")
    arguments = ["--api-keys-file", str(keys), "--max-queued-jobs", "6", "--worker-threads", "1"]
    with ParleyServer(*arguments) as server:
        outcomes = asyncio.run(turns_beside_attackers(server))
        assert counts(server)["parley_worker_refused_jobs_total"] > 0
        assert counts(server)["parley_worker_evicted_jobs_total"] > 0
    assert [event["type"] for event in outcomes] == [COMPLETED] * len(outcomes), outcomes
    assert all("meters" in event["transcript"] for event in outcomes)
