"""Phonemes of Parley's front end beside those of the natural voice's own, sentence by sentence.

    compare.py PROGRAM WHEEL FOLDER TEXTS… [--sentences 2000] [--show REASON]

PROGRAM is the program beside this file, WHEEL the folder of the unzipped wheel, FOLDER the one with
the tables of scripts/voice_tables.py, and TEXTS are files of quotations as Debian's package
`fortunes` has them. The sentences are chosen by a fixed seed.

Both front ends get what SpokenText makes of a sentence. The other one reads with the gold lexicon,
and flite reads the words that it lacks: Parley uses neither the other lexicon nor the networks. A
sentence that differs is put to the other front end again, with one change after the other; the one that
makes both equal is its reason. The rest are differences of single words. A difference without a reason
fails.
"""

import argparse
import collections
import difflib
import random
import re
import subprocess
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--show", default="no reason", help="the reason whose sentences are shown")
    arguments = parser.parse_args()

    def run(mode: list[str], lines: list[str]) -> list[str]:
        ran = subprocess.run(
            [arguments.program, *mode], input="\n".join(lines), text=True, check=True,
            stdout=subprocess.PIPE,
        )
        return ran.stdout.split("\n")[: len(lines)]

    found = sentences(arguments.texts)
    random.Random(arguments.seed).shuffle(found)
    spoken = [text for text in run(["spoken"], found[: arguments.sentences]) if text]
    ours = run(["phonemes", str(arguments.tables)], spoken)
    theirs = OtherFrontEnd(arguments.wheel, lambda words: run(["guesses"], words))
    theirs.learn_guesses(spoken)
    reasons: collections.Counter[str] = collections.Counter()
    shown = []
    for text, mine in zip(spoken, ours):
        reason, detail = theirs.reason(text, mine)
        reasons[reason] += 1
        if reason == arguments.show:
            shown.append(f"{text}\n    {detail}")
    print(f"{len(spoken)} sentences, {sum(len(text.split()) for text in spoken)} words")
    print("| sentences | |\n|---|---|")
    for reason, count in reasons.most_common():
        print(f"| {count} | {reason} |")
    print("\n".join(shown[:50]))
    sys.exit(1 if reasons["no reason"] else 0)


def sentences(files: list[Path]) -> list[str]:
    """Sentences of 5 to 30 words, without their sources."""
    found = set()
    for quotation in "\n%\n".join(file.read_text("utf-8", "ignore") for file in files).split("\n%\n"):
        text = re.sub(r"\n\s*--.*$", "", quotation, flags=re.DOTALL)
        text = re.sub(r"\s+", " ", re.sub(".\b", "", text)).strip()
        for sentence in re.split(r"(?<=[.?!])[\"')]*\s+(?=[A-Z\"])", text):
            if 5 <= len(sentence.split()) <= 30 and sentence[0].isupper() and sentence[-1] in ".?!":
                found.add(sentence)
    return sorted(found)


class OtherFrontEnd:
    """The front end in the wheel, with the gold lexicon alone, and flite for other words."""

    # What is changed in it one after the other, each with the ones before.
    CHANGES = [
        "it replaces abbreviations again, which SpokenText has done",
        "it keeps quotation marks, which make nouns of words",
        "it guesses how a word sounds that flite would spell (html)",
        "it guesses the ending of an unknown word ('s, 'll) as a word of its own",
        "it has no mark where the last dot belongs to an abbreviation",
        "its sums of weights are rounded, where two parts of speech have the same",
    ]

    def __init__(self, wheel: Path, guess) -> None:
        # The package itself needs numpy; its front end does not.
        sys.path.insert(0, str(wheel / "hibari"))
        import g2p

        self.guess = guess
        self.guesses: dict[str, str] = {}
        self.asked: set[str] = set()
        self.front_end = g2p.G2P(oov=self.guessed)
        self.front_end.lexicon.silvers.d = {}
        self.normalize = g2p.normalize
        self.predict = self.front_end.tagger.predict
        self.changes = 0

    def guessed(self, word: str) -> str:
        self.asked.add(word)
        if self.changes > 3 and "'" in word:
            stem, _, ending = word.rpartition("'")
            sounds = self.spelled_or_guessed(stem.replace("'", ""))
            rules = {
                "": lambda: sounds, "s": lambda: self.front_end.lexicon._s(sounds),
                "d": lambda: self.front_end.lexicon._ed(sounds), "ll": lambda: sounds + "əl",
            }
            if ending in rules:
                return rules[ending]()
            word = word.replace("'", "")
        return self.spelled_or_guessed(word)

    def spelled_or_guessed(self, word: str) -> str:
        self.asked.add(word)
        sounds = self.guesses.get(word, "")
        if not sounds and self.changes > 2:
            return self.front_end.lexicon.get_NNP(word)[0] or ""
        return sounds

    def exact(self, features: list[str]) -> str:
        """The tag of the highest sum in whole tenths."""
        tagger = self.front_end.tagger
        scores: collections.Counter[str] = collections.Counter()
        for feature in features:
            for tag, weight in tagger.weights.get(feature, {}).items():
                scores[tag] += round(weight * 10)
        return max(tagger.tags, key=lambda tag: (scores[tag], tag)) if scores else "NN"

    def learn_guesses(self, texts: list[str]) -> None:
        """Asks flite for all words that the texts need, in one go."""
        for self.changes in (0, len(self.CHANGES)):
            for text in texts:
                self.sounds(text)
        asked = sorted(self.asked)
        self.guesses = dict(zip(asked, self.guess(asked)))

    def words(self, text: str) -> list[tuple[str, str, bool]]:
        """Each word's text, phonemes, and whether a space follows."""
        if self.changes < 1:
            text = self.normalize(text)
        if self.changes > 1:
            text = text.replace('"', "")
        self.front_end.tagger.predict = self.exact if self.changes > 5 else self.predict
        tokens = self.front_end.phonemize_tokens(self.front_end.tokenize(text))
        return [(token.text, token.phonemes or "", bool(token.whitespace)) for token in tokens]

    def sounds(self, text: str) -> str:
        """Phonemes as one line: one space between words, no marks alone."""
        return self.line(
            "".join(sounds + " " * has_space for _, sounds, has_space in self.words(text)), text)

    def line(self, sounds: str, text: str) -> str:
        if self.changes > 1:
            sounds = re.sub("[“”]", "", sounds)
        sounds = re.sub(" +", " ", sounds).strip()
        if self.changes > 4 and text.endswith(".") and sounds and sounds[-1] not in ";:,.!?":
            sounds += "."
        return re.sub(r"(?<=[.?!]) [.?!]+$", "", sounds)

    def reason(self, text: str, mine: str) -> tuple[str, str]:
        """Why the phonemes of both differ, and what differs."""
        for self.changes in range(len(self.CHANGES) + 1):
            if self.sounds(text) == self.line(mine, text):
                return ["equal", *self.CHANGES][self.changes], ""
        groups: list[tuple[str, str]] = []
        is_open = False
        for word, sounds, has_space in self.words(text):
            if is_open:
                groups[-1] = (groups[-1][0] + word, groups[-1][1] + sounds)
            else:
                groups.append((word, sounds))
            is_open = not has_space
        return self.word_reason([(word, self.line(sounds, "")) for word, sounds in groups], mine)

    def word_reason(self, words: list[tuple[str, str]], mine: str) -> tuple[str, str]:
        """The reason of the words that differ; that of the first where there are several."""
        units = [unit for _, sounds in words for unit in sounds.split()]
        place = [index for index, (_, sounds) in enumerate(words) for _ in sounds.split()]
        ours = mine.split()
        found = []
        matcher = difflib.SequenceMatcher(None, units, ours, autojunk=False)
        for kind, first, last, ours_first, ours_last in matcher.get_opcodes():
            if kind == "equal":
                continue
            near = [place[index] for index in range(first, last)]
            if not near:
                before = place[first - 1] if first > 0 else -1
                after = place[first] if first < len(place) else len(words)
                near = list(range(before + 1, after)) or [max(before, 0)]
            text = " ".join(words[index][0] for index in sorted(set(near)))
            after = words[max(near) + 1][0] if max(near) + 1 < len(words) else ""
            theirs = " ".join(units[first:last])
            mine_here = " ".join(ours[ours_first:ours_last])
            detail = f"{text!r}: {theirs!r}, ours {mine_here!r}"
            found.append((self.kind(text, after, theirs, mine_here), detail))
        unknown = [item for item in found if item[0] == "no reason"]
        return (unknown or found or [("no reason", mine)])[0]

    def kind(self, text: str, after: str, theirs: str, mine: str) -> str:
        """The reason why a word differs."""
        compound = "[A-Za-z][^A-Za-z ]+[A-Za-z']|[a-z][A-Z]"

        def is_unknown(text: str) -> bool:
            return any(word in self.asked for word in re.findall(r"[A-Za-z']+", text))

        if not re.search("[A-Za-z+&%=@]", text):
            return "it speaks sentences of marks alone"
        if mine == theirs + ".":
            return self.CHANGES[4]
        if re.search(r"(\w)\1\1", text, re.IGNORECASE) and is_unknown(text):
            return "it guesses a stretched word (sooo)"
        if re.search(compound, text) and is_unknown(text):
            return "it guesses the known parts of a compound, too"
        if re.search(compound + "|'", after) and is_unknown(after):
            return "it does not hear the first sound of an unknown compound"
        if text.rstrip(";:,.!?") == "A":
            return "it takes the letter A for an article before a mark"
        if not theirs or re.search("['/=+]", text):
            return "it reads signs, and apostrophes that it takes for quotation marks, otherwise"
        return "no reason"


if __name__ == "__main__":
    main()
