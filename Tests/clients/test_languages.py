"""A session in another language than English, through the whole server: a Frenchwoman's recording is heard
in French, found out or named, and answered in text, because no embedded voice speaks French."""

import subprocess
import wave

import pytest
from parley_server import BINARY, HANG_GUARD, ROOT, ParleyServer

PROMPTS = "/usr/share/asterisk/sounds/fr_CA_f_June"
SPOKEN = ["agent-newlocation", "all-circuits-busy-now"]
WORDS = "le nouveau numéro de poste toutes les lignes sont occupées".split()


@pytest.fixture
def french(tmp_path):
    """Two sentences, as one recording."""
    path = tmp_path / "french.wav"
    with wave.open(str(path), "wb") as joined:
        joined.setnchannels(1)
        joined.setsampwidth(2)
        joined.setframerate(8_000)
        for prompt in SPOKEN:
            with wave.open(f"{PROMPTS}/{prompt}.wav") as part:
                joined.writeframes(part.readframes(part.getnframes()))
    return str(path)


@pytest.fixture
def english_only(tmp_path):
    """A models directory as `make models` leaves it."""
    folder = tmp_path / "models"
    folder.mkdir()
    for path in (ROOT / "models").iterdir():
        if path.name != "whisper-base" and not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    return folder


def heard(turns):
    return turns[0]["heard"].lower()


def serve_once(*options):
    return subprocess.run(
        [BINARY, "serve", "--port", "0", *options], capture_output=True, text=True,
        timeout=HANG_GUARD, check=False)


def test_the_start_says_how_to_install_a_language(english_only):
    done = serve_once("--models", str(english_only), "--recognizer-languages", "en,fr")
    assert done.returncode != 0
    assert "fr is not installed" in done.stderr and "run `make languages`" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_french_is_found_out_and_answered_in_text(french):
    with ParleyServer("--recognizer-languages", "en,fr") as server:
        [turn] = server.turns("--wav", french)
        print(turn)
        assert sum(word in heard([turn]) for word in WORDS) >= len(WORDS) - 2
        assert turn["reply"] and not turn.get("first_audio_ms")
        assert "no voice speaks some of recognizer-languages" in server.log_path.read_text()
        # English is not disturbed.
        [turn] = server.turns("--text", "hello", "--out", f"{french}.reply.wav")
        assert turn["reply"]


def test_french_is_named(french):
    with ParleyServer("--recognizer-languages", "en,fr") as server:
        [turn] = server.turns("--wav", french, "--language", "fr")
        assert sum(word in heard([turn]) for word in WORDS) >= len(WORDS) - 2


def test_a_model_from_elsewhere_hears_a_language(english_only, french):
    own = english_only / "recognizers" / "fr"
    own.parent.mkdir()
    own.symlink_to(ROOT / "models" / "whisper-base")
    with ParleyServer("--models", str(english_only), "--recognizer-languages", "fr") as server:
        [turn] = server.turns("--wav", french)
        assert sum(word in heard([turn]) for word in WORDS) >= len(WORDS) - 2


def test_a_folder_without_a_model_is_one_line(english_only):
    (english_only / "recognizers" / "fr").mkdir(parents=True)
    (english_only / "whisper-base").symlink_to(ROOT / "models" / "whisper-base")
    options = ["--models", str(english_only), "--recognizer-languages", "en,fr"]
    with ParleyServer(*options) as server:
        lines = [line for line in server.log_path.read_text().splitlines() if "recognizers/" in line]
        assert len(lines) == 1 and "has no Whisper model" in lines[0]
