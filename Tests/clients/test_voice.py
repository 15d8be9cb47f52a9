"""The embedded voices by name. The natural voice speaks through the whole server and is recognised
again where `make voice` has installed it; that it is missing is tested everywhere."""

import asyncio
import subprocess

import pytest
import websockets.asyncio.client
from parley_server import (
    BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer,
)
from raw_session import RawSession
from recordings import word_errors, words

VOICE = ROOT / "models/natural-voice"
installed = pytest.mark.skipif(
    not (VOICE / "decoder.onnx").exists(), reason="no natural voice: run `make voice`")
SENTENCE = "the blue train to the harbor leaves at seven and another one follows at nine"


@pytest.fixture
def without_voice(tmp_path):
    """A models directory as `make models` leaves it."""
    for path in (ROOT / "models").iterdir():
        if path.name != "natural-voice" and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


def test_the_start_says_how_to_install_the_voice(without_voice):
    done = subprocess.run(
        [BINARY, "serve", "--port", "0", "--models", str(without_voice),
         "--voice-engine", "natural"],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert done.returncode != 0
    assert "voice-engine" in done.stderr and "run `make voice`" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_session_that_names_the_missing_voice_gets_a_typed_error(without_voice):
    async def answer(server, voice):
        async with websockets.asyncio.client.connect(
            server.realtime_url, proxy=None, max_size=None, **PATIENT_WEBSOCKET
        ) as connection:
            session = RawSession(connection)
            await session.send(
                "session.update",
                session={"type": "realtime", "audio": {"output": {"voice": voice}}})
            content = [{"type": "input_text", "text": "hello"}]
            item = {"type": "message", "role": "user", "content": content}
            await session.send("conversation.item.create", item=item)
            await session.send("response.create")
            return (await session.until("response.done"))["response"]

    # Replies are sent at once, and not at the pace of their playing.
    with ParleyServer("--models", str(without_voice), "--playout-lead-ms", "60000") as server:
        failed = asyncio.run(answer(server, "natural"))
        assert failed["status"] == "failed"
        assert failed["status_details"]["error"]["code"] == "agent_unavailable"
        # Another session is not affected, and an unknown name is the standard voice.
        for voice in ("marin", "nobody"):
            assert asyncio.run(answer(server, voice))["status"] == "completed"


@installed
def test_what_the_natural_voice_says_is_heard_again(tmp_path):
    spoken = tmp_path / "spoken.wav"
    with ParleyServer("--voice-engine", "natural") as server:
        reply = server.turns("--text", SENTENCE, "--out", str(spoken))[0]["reply"]
        heard = server.turns("--wav", str(spoken))[0]["heard"]
        assert server.metric("parley_voice_substitutions_total") == "0"
    print(f"{heard!r} for {reply!r}")
    assert word_errors(words(reply), words(heard)) <= 2


@installed
def test_a_phrase_of_the_natural_voice_is_kept(tmp_path):
    with ParleyServer("--voice-engine", "natural") as server:
        for _ in range(3):
            server.turns("--text", SENTENCE, "--out", str(tmp_path / "reply.wav"))
        assert int(server.metric('parley_phrases_total{result="hit"}')) > 0
