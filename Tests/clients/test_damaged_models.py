"""Damaged speech models: one line names the file, a turn that needs it fails with a clear error,
and the process continues. The dynamic linker would end the process for several of these files."""

import asyncio
import base64
import hashlib
import os
import pathlib
import random

import pytest
import websockets.asyncio.client
from parley_server import PATIENT_WEBSOCKET, ROOT, ParleyServer
from raw_session import RawSession
from test_signals import wait_for_log

MODELS = ROOT / "models"
ENCODER = "moonshine-base-en/encoder.onnx"
DECODER = "moonshine-base-en/decoder.onnx"
TOKENS = "moonshine-base-en/tokens.txt"
RUNTIME = "sherpa-onnx/lib/libonnxruntime.so"
DETECTOR = "silero_vad.bin"
FILES = [ENCODER, DECODER, TOKENS, RUNTIME, DETECTOR]
COMPLETED = "conversation.item.input_audio_transcription.completed"
FAILED = "conversation.item.input_audio_transcription.failed"


def flipped(content):
    """The content with 200 bytes changed."""
    generator, changed = random.Random(1), bytearray(content)
    for _ in range(200):
        changed[generator.randrange(len(changed))] ^= 0xFF
    return bytes(changed)


DAMAGES = {
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "garbage": lambda content: random.Random(1).randbytes(100_000),
    "flipped": flipped,
}


@pytest.fixture(scope="module")
def sums():
    """SHA256SUMS of the intact models, as `make models` writes it."""
    lines = []
    for name in FILES:
        with open(MODELS / name, "rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path, sums):
    """A folder of models, in which a test may replace files."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(MODELS / name)
    (tmp_path / "SHA256SUMS").write_text(sums)
    return tmp_path


def replace(path, content):
    """Replaces a file by another, like a download does."""
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").rename(path)


class Conversation(RawSession):
    """A session that receives speech and commits it."""

    def __init__(self, server):
        self.connecting = websockets.asyncio.client.connect(
            server.realtime_url + "?model=m", max_size=None, **PATIENT_WEBSOCKET)

    async def __aenter__(self):
        self.connection = await self.connecting
        detection = {"turn_detection": None, "transcription": {"model": "any"}}
        await self.send(
            "session.update", session={
                "type": "realtime", "output_modalities": ["text"], "audio": {"input": detection}})
        return self

    async def __aexit__(self, *_):
        await self.connection.close()

    async def hear(self, speech):
        """The transcript of an utterance, or the error."""
        await self.send("input_audio_buffer.append", audio=base64.b64encode(speech).decode())
        await self.send("input_audio_buffer.commit")
        event = await self.until(COMPLETED, FAILED)
        return event.get("transcript") or event["error"]

    async def reply(self, text):
        """The status of the reply to a typed message."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create")
        return (await self.until("response.done"))["response"]["status"]


def converse(server, speech):
    """Speaks, then types: returns what was recognised, and how the typed turn ended."""
    async def test():
        async with Conversation(server) as conversation:
            return await conversation.hear(speech), await conversation.reply("hello")

    return asyncio.run(test())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES[:-1], ids=lambda name: name.rsplit("/", 1)[-1])
def test_a_damaged_file_fails_the_turn_and_not_the_process(folder, speech, name, damage):
    replace(folder / name, DAMAGES[damage]((MODELS / name).read_bytes()))
    with ParleyServer("--models", str(folder)) as server:
        heard, status = converse(server, speech)
        assert heard["code"] == "agent_unavailable"
        assert name in heard["message"] and "make models" in heard["message"]
        assert status == "completed"
        assert server.get("/readyz")[0] == 200
        log = server.log_path.read_text(encoding="utf-8")
        assert log.count(f"is damaged ({name})") == 1


@pytest.mark.parametrize("damage", ["cut off", "empty"])
def test_a_damaged_library_is_opened_by_no_model(folder, speech, damage):
    """Whisper and Smart Turn have checksums of their own; the library's are those of the folder."""
    for name in ("whisper-base", "smart-turn"):
        (folder / name).symlink_to(MODELS / name)
    replace(folder / RUNTIME, DAMAGES[damage]((MODELS / RUNTIME).read_bytes()))
    options = ["--recognizer-languages", "fr", "--turn-model", "smart-turn"]
    with ParleyServer("--models", str(folder), *options) as server:
        heard, status = converse(server, speech)
        assert (heard["code"], status) == ("agent_unavailable", "completed")
        assert RUNTIME in heard["message"]
        # A worker thread loads the turn model while the turn is heard.
        wait_for_log(server, "no turn model: turns are judged without it")
        assert server.get("/readyz")[0] == 200


@pytest.mark.parametrize("make", [pathlib.Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", [ENCODER, TOKENS, RUNTIME])
def test_a_directory_or_a_pipe_in_place_of_a_file_fails_the_turn(folder, speech, name, make):
    (folder / name).unlink()
    make(folder / name)
    with ParleyServer("--models", str(folder)) as server:
        heard, status = converse(server, speech)
        assert (heard["code"], status) == ("agent_unavailable", "completed")


def test_files_in_each_others_places_are_damaged(folder, speech):
    (folder / ENCODER).rename(folder / "other")
    (folder / DECODER).rename(folder / ENCODER)
    (folder / "other").rename(folder / DECODER)
    with ParleyServer("--models", str(folder)) as server:
        assert ENCODER in converse(server, speech)[0]["message"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_detector_leaves_turns_to_the_client(folder, speech, damage):
    replace(folder / DETECTOR, DAMAGES[damage]((MODELS / DETECTOR).read_bytes()))
    (folder / TOKENS).unlink()
    with ParleyServer("--models", str(folder)) as server:
        assert converse(server, speech)[1] == "completed"
        log = server.log_path.read_text(encoding="utf-8")
        assert log.count("turns must be committed by the client") == 1


def test_a_missing_file_is_named_at_the_start(folder, speech):
    (folder / TOKENS).unlink()
    with ParleyServer("--models", str(folder)) as server:
        assert converse(server, speech)[0]["code"] == "agent_unavailable"
        log = server.log_path.read_text(encoding="utf-8")
        assert "no speech recognition" in log and "tokens.txt: No such file" in log


def test_a_model_that_is_mended_is_heard_without_a_restart(folder, speech):
    async def test(server):
        async with Conversation(server) as conversation:
            for _ in range(2):
                assert (await conversation.hear(speech))["code"] == "agent_unavailable"
            os.unlink(folder / TOKENS)
            (folder / TOKENS).symlink_to(MODELS / TOKENS)
            assert "orward" in await conversation.hear(speech)

    replace(folder / TOKENS, b"")
    with ParleyServer("--models", str(folder)) as server:
        asyncio.run(test(server))


def test_models_without_checksums_are_used_with_a_warning(folder, speech):
    (folder / "SHA256SUMS").unlink()
    with ParleyServer("--models", str(folder)) as server:
        assert "orward" in converse(server, speech)[0]
        assert "no checksums" in server.log_path.read_text(encoding="utf-8")
