"""How well the embedded recognisers hear five languages, and what that costs: a table.

    table.py RECORDINGS [--step 1] [--languages en,es,fr,it,ru] [--mistakes] [--whisper]

RECORDINGS has Debian's packages of Asterisk's prompts, unpacked by scripts/bench-languages.sh: people in
a studio, one a language, 16 kHz, with their texts. The texts deviate from what is said now and then, so
the share of mistaken words is an upper bound. Numbers are compared as words, letters without accents.
"""

import argparse
import gzip
import json
import re
import subprocess
import unicodedata
import wave
from pathlib import Path

import av
from num2words import num2words

# A longer recording is more than one utterance.
MAX_SECONDS = 29.5
# Words of a text whose transcript is compared.
WORDS = range(5, 61)
GROUPS = {"1–2 words": range(1, 3), "3–4": range(3, 5), "5 and more": WORDS}
LENGTHS = {"under 2 s": (0, 2), "2–5 s": (2, 5), "5–10 s": (5, 10), "over 10 s": (10, MAX_SECONDS)}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("recordings", type=Path)
    options.add_argument("--step", type=int, default=1, help="only each so many-th recording")
    options.add_argument("--languages", default="en,es,fr,it,ru")
    options.add_argument("--mistakes", action="store_true", help="show what was mistaken")
    options.add_argument("--whisper", action="store_true", help="Whisper hears English, too")
    options = options.parse_args()
    languages = options.languages.split(",")
    clips = {
        clip["path"]: clip
        for language in languages
        for clip in prompts(options.recordings, language)[:: options.step]
    }
    hear(clips, languages, options.whisper)
    print("| language | recordings | words | mistaken | CPU a second of speech | more mistakes than words |")
    print("|---|---|---|---|---|---|")
    for language in languages:
        row([clip for clip in clips.values() if clip["language"] == language], options.mistakes)
    print("\n| CPU a second of speech | " + " | ".join(LENGTHS) + " |\n|---" + "|---" * len(LENGTHS) + "|")
    for name, of in (("all but English", lambda l: l != "en"), ("English", lambda l: l == "en")):
        costs = [cost(clips.values(), of, *bounds) for bounds in LENGTHS.values()]
        print(f"| {name} | " + " | ".join(costs) + " |")
    print("\n| language found | " + " | ".join(GROUPS) + " |\n|---" + "|---" * len(GROUPS) + "|")
    for language in [*languages, "all"]:
        shares = [share(clips.values(), language, group) for group in GROUPS.values()]
        print(f"| {language} | " + " | ".join(shares) + " |")


def prompts(recordings: Path, language: str) -> list[dict]:
    """The prompts of a language that are words and nothing else."""
    [sounds] = (recordings / language).glob("usr/share/asterisk/sounds/*/")
    [texts] = (recordings / language).glob("usr/share/doc/asterisk-core-sounds-*/core-sounds-*.txt.gz")
    found = []
    for line in gzip.open(texts, "rt", encoding="utf-8-sig"):
        match = re.match(r"([\w/.-]+):\s*(.+)", line.strip())
        if not match or re.search(r"[\[\](){}<>/*#…]|\.\.\.", match[2]):
            continue
        source = sounds / f"{match[1]}.g722"
        count = len(re.findall(r"\w+", match[2]))
        # Single letters are no words.
        if source.exists() and count <= WORDS[-1] and not match[1].startswith(("letters", "phonetic")):
            path = decoded(source)
            if path:
                found.append({"path": str(path), "text": match[2], "count": count, "language": language})
    return found


def decoded(source: Path) -> Path | None:
    """The recording as WAV beside its source; nothing where it is too long."""
    target = source.with_suffix(".wav")
    if not target.exists():
        with av.open(str(source), format="g722") as file:
            samples = b"".join(bytes(frame.planes[0])[: 2 * frame.samples] for frame in file.decode(audio=0))
        with wave.open(str(target), "wb") as file:
            file.setnchannels(1), file.setsampwidth(2), file.setframerate(16_000)
            file.writeframes(samples)
    return target if target.stat().st_size < MAX_SECONDS * 32_000 else None


def hear(clips: dict[str, dict], languages: list[str], whisper: bool) -> None:
    command = [".build/release/language-table", ",".join(languages)] + ["--whisper"] * whisper
    lines = "".join(f"{clip['language']}\t{path}\n" for path, clip in clips.items())
    done = subprocess.run(command, input=lines, text=True, stdout=subprocess.PIPE, check=True)
    for line in done.stdout.splitlines():
        result = json.loads(line)
        path = result.pop("path")
        clips[path] |= {"said": clips[path].pop("text"), **result}


def words(text: str, language: str) -> list[str]:
    text = unicodedata.normalize("NFKC", text.lower())
    text = re.sub(r"(?<=\d)[.,](?=\d{3})", "", text)
    text = re.sub(r"\d+", lambda number: f" {num2words(int(number[0]), lang=language)} ", text)
    text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return "".join(c if c.isalnum() else " " for c in text).split()


def errors(said: list[str], heard: list[str]) -> int:
    """The least number of words to change, add or leave out."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(said, 1):
        before, row[0] = row[0], index
        for place, other in enumerate(heard, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))
    return row[-1]


def row(clips: list[dict], shows_mistakes: bool) -> None:
    language, mistaken, total, mistakes = clips[0]["language"], 0, 0, []
    clips = [clip for clip in clips if clip["count"] in WORDS]
    for clip in clips:
        said, heard = words(clip["said"], language), words(clip["text"], language)
        count = errors(said, heard)
        mistaken, total = mistaken + count, total + len(said)
        mistakes.append((count, clip["said"], clip["text"]))
    rate = sum(clip["milliseconds"] for clip in clips) / 1_000 / sum(clip["seconds"] for clip in clips)
    wild = sum(count > len(words(said, language)) for count, said, _ in mistakes)
    print(f"| {language} | {len(clips)} | {total} | {100 * mistaken / total:.1f}% | {rate:.3f} s | {wild} |")
    if shows_mistakes:
        for count, said, heard in sorted(mistakes, reverse=True)[:10]:
            print(f"    {count}: {said}\n       {heard}")


def cost(clips, of, shortest: float, longest: float) -> str:
    chosen = [
        clip for clip in clips if of(clip["language"]) and shortest <= clip["seconds"] < longest
    ]
    if not chosen:
        return "–"
    spent = sum(clip["milliseconds"] for clip in chosen) / 1_000
    return f"{spent / sum(clip['seconds'] for clip in chosen):.3f} s ({len(chosen)})"


def share(clips, language: str, group: range) -> str:
    chosen = [c for c in clips if c["count"] in group and language in (c["language"], "all")]
    if not chosen:
        return "–"
    right = sum(clip.get("heard") == clip["language"] for clip in chosen)
    return f"{100 * right / len(chosen):.0f}% of {len(chosen)}"


if __name__ == "__main__":
    main()
