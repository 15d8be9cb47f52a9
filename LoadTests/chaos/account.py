"""What callers got: words, audio, sessions and times, added up for one run.

Invariant: a word counts where the conversation's items have it, so that what a client was shown and what
the conversation says are the same."""

import collections
import dataclasses
import re

from numbered_model import WORDS


@dataclasses.dataclass
class Turn:
    """One turn of one conversation."""

    kind: str
    asked: float
    status: str = "none"
    # The words of all messages that answer it, in the order of the conversation.
    words: list = dataclasses.field(default_factory=list)
    audio_ms: float = 0
    was_disturbed: bool = False
    is_heard: bool = False

    @property
    def missing(self):
        return len(set(WORDS) - set(self.words))

    @property
    def twice(self):
        return sum(count - 1 for count in collections.Counter(self.words).values())

    @property
    def was_told(self):
        """Whether the client knows that the reply is not whole."""
        return self.status != "completed"


def words_of(text):
    return re.findall(r"[a-z]+", text.lower())


class Account:
    """Of all callers of a run."""

    def __init__(self):
        self.turns = []
        self.counts = collections.Counter()
        # Seconds from a loss to the session's return, and to the next piece of a reply for which a
        # caller was waiting.
        self.returns = []
        self.heard_again = []
        # (session, epoch, offset) → event id: no two owners may number different events alike.
        self.events = {}
        self.notes = collections.Counter()

    def saw(self, session, epoch, event):
        """An event with an offset has come."""
        key = (session, epoch, event["offset"])
        if self.events.setdefault(key, event["event_id"]) != event["event_id"]:
            self.counts["events numbered twice"] += 1

    def usual_audio(self):
        """The milliseconds of a whole spoken reply; None where none was heard undisturbed."""
        whole = sorted(
            turn.audio_ms for turn in self.turns
            if turn.audio_ms and turn.status == "completed" and not turn.was_disturbed)
        return whole[len(whole) // 2] if whole else None

    def audio_words(self):
        """Words of audio that were not heard, and that were heard twice, in replies that the client
        takes for whole. Half a word is the beginning of one that was spoken again."""
        usual, lost, twice = self.usual_audio(), 0, 0
        for turn in self.turns if usual else []:
            if turn.audio_ms and not turn.was_told:
                words = round((turn.audio_ms - usual) / (usual / len(WORDS)))
                lost, twice = lost + max(0, -words), twice + max(0, words)
        return lost, twice

    def summary(self):
        """The figures of a row, by the title of their columns."""
        told = [turn for turn in self.turns if turn.was_told]
        whole = [turn for turn in self.turns if not turn.was_told]
        audio_lost, audio_twice = self.audio_words()
        return {
            "turns": len(self.turns),
            "connections broken": self.counts["broken"],
            "recovered": self.counts["recovered"],
            "restored": self.counts["restored"],
            "sessions lost": self.counts["sessions lost"],
            "items lost": self.counts["items lost"],
            "replies cut short, client told": len(told),
            "words lost unseen": sum(turn.missing for turn in whole),
            "words twice": sum(turn.twice for turn in self.turns),
            "audio lost, words": audio_lost,
            "audio twice, words": audio_twice,
            "owned twice": self.counts["owned twice"] + self.counts["events numbered twice"],
            "back p50 / p99 ms": pair(self.returns),
            "heard again p50 / p99 ms": pair(self.heard_again),
        }


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None


def pair(seconds):
    if not seconds:
        return "–"
    return f"{1000 * quantile(seconds, 0.5):,.0f} / {1000 * quantile(seconds, 0.99):,.0f}"
