"""The embedded voices through the whole server. Where the natural voice is not installed, the tests that
need it are skipped; what happens without it is tested everywhere."""

import asyncio
import shutil

import pytest
import websockets.asyncio.client
from parley_server import PATIENT_WEBSOCKET, ROOT, ParleyServer
from raw_session import RawSession
from recordings import word_errors, words

VOICE = ROOT / "models/natural-voice"
installed = pytest.mark.skipif(
    not (VOICE / "SHA256SUMS").exists(), reason="no natural voice: run `make voice`")
SENTENCE = "the blue train to the harbor leaves at seven and another one follows at nine"
SUBSTITUTIONS = "parley_voice_substitutions_total"


@pytest.fixture
def without_voice(tmp_path):
    """A models directory as `make models` leaves it."""
    for path in (ROOT / "models").iterdir():
        if path.name != "natural-voice" and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


async def answer(server, voice, content="hello", cancel=False):
    """The response to a text, and the bytes of its audio. One that is to be cancelled is at its first
    audio."""
    async with websockets.asyncio.client.connect(
        server.realtime_url, proxy=None, max_size=None, **PATIENT_WEBSOCKET
    ) as connection:
        session = RawSession(connection)
        await session.send(
            "session.update", session={"type": "realtime", "audio": {"output": {"voice": voice}}})
        content = [{"type": "input_text", "text": content}]
        item = {"type": "message", "role": "user", "content": content}
        await session.send("conversation.item.create", item=item)
        await session.send("response.create")
        if cancel:
            await session.until("response.output_audio.delta")
            await session.send("response.cancel")
        return (await session.until("response.done"))["response"]


def lines_about_the_voice(server):
    return [line for line in server.log_path.read_text().splitlines() if "natural voice" in line]


def test_without_the_voice_flite_speaks_and_one_line_says_so(without_voice):
    # Replies are sent at once, and not at the pace of their playing.
    with ParleyServer("--models", str(without_voice), "--playout-lead-ms", "60000") as server:
        for voice in ("marin", "nobody", "cedar"):
            assert asyncio.run(answer(server, voice))["status"] == "completed"
        assert len(lines_about_the_voice(server)) == 1
        assert "make voice" in lines_about_the_voice(server)[0]


@installed
def test_a_damaged_voice_is_reported_once_and_flite_speaks(without_voice):
    shutil.copytree(VOICE, without_voice / "natural-voice")
    with open(without_voice / "natural-voice/hibari.onnx", "r+b") as file:
        file.truncate(1_000_000)
    with ParleyServer("--models", str(without_voice), "--playout-lead-ms", "60000") as server:
        for voice in ("marin", "nova", "cedar"):
            assert asyncio.run(answer(server, voice))["status"] == "completed"
        assert len(lines_about_the_voice(server)) == 1
        assert int(server.metric(SUBSTITUTIONS)) >= 2


@installed
def test_a_session_speaks_with_the_natural_voice_and_is_heard_again(tmp_path):
    spoken = tmp_path / "spoken.wav"
    with ParleyServer() as server:
        reply = server.turns("--text", SENTENCE, "--out", str(spoken))[0]["reply"]
        assert float(server.metric('parley_memory_bytes{part="models"}')) > 5_000_000
        heard = server.turns("--wav", str(spoken))[0]["heard"]
        assert server.metric(SUBSTITUTIONS) == "0"
    print(f"{heard!r} for {reply!r}")
    assert word_errors(words(reply), words(heard)) <= 2


@installed
def test_a_phrase_of_the_natural_voice_is_kept(tmp_path):
    with ParleyServer("--shards", "1") as server:
        for _ in range(3):
            server.turns("--text", SENTENCE, "--out", str(tmp_path / "reply.wav"))
        assert int(server.metric('parley_phrases_total{result="hit"}')) > 0


@installed
def test_an_interrupted_reply_ends_and_the_next_one_speaks():
    with ParleyServer() as server:
        for _ in range(3):
            cancelled = asyncio.run(answer(server, "marin", f"{SENTENCE}. " * 20, cancel=True))
            assert cancelled["status"] == "cancelled"
        with_lead = asyncio.run(answer(server, "nova"))
        assert with_lead["status"] == "completed"
        assert server.metric(SUBSTITUTIONS) == "0"
