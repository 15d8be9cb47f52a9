"""Human speech with its texts, from Debian's pocketsphinx-testdata, and the comparison of texts."""

import functools
import pathlib
import re
import subprocess
import tempfile

DATA = pathlib.Path("/usr/share/pocketsphinx/test/data")

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()
SPELLINGS = {"mr": "mister", "mrs": "missus", "metres": "meters", "metre": "meter", "ok": "okay"}


def utterances():
    """(path, text) of every recording that counts for the word error rate."""
    found = [(DATA / "goforward.raw", "go forward ten meters")]
    lines = (DATA / "librivox/transcription").read_text(encoding="ascii").splitlines()
    for line in lines:
        text, name = re.fullmatch(r"<s> (.*?) *</s> \((.*)\)", line).groups()
        found.append((DATA / f"librivox/{name}.wav", text))
    return found


def convert(path, target, rate=16000):
    """Writes a recording as a mono 16-bit WAV file (or raw, by the target's name)."""
    raw = ["-t", "raw", "-r", "16000", "-e", "signed", "-b", "16", "-c", "1"]
    source = [*(raw if path.suffix == ".raw" else []), str(path)]
    subprocess.run(
        ["sox", *source, "-r", str(rate), "-e", "signed", "-b", "16", "-c", "1", str(target)],
        check=True,
    )
    return target


@functools.cache
def goforward(rate=24000):
    """"go forward ten meters" as samples, between 300 ms and 1 s of silence."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "goforward.s16"
        samples = convert(DATA / "goforward.raw", target, rate=rate).read_bytes()
    return bytes(2 * rate * 3 // 10) + samples + bytes(2 * rate)


def words(text):
    """The words of a text as spoken: without case and punctuation, with numbers spelled out."""
    found = re.findall(r"[a-z']+|\d+", text.lower().replace("’", "'"))
    spoken = []
    for word in found:
        if word.isdigit() and int(word) < len(NUMBERS):
            word = NUMBERS[int(word)]
        spoken.append(SPELLINGS.get(word, word))
    return spoken


def word_errors(reference, heard):
    """Insertions, deletions and replacements that turn one list of words into the other."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(heard, 1):
            replaced = diagonal + (word != other)
            diagonal = row[column]
            row[column] = min(replaced, row[column] + 1, row[column - 1] + 1)
    return row[-1]
