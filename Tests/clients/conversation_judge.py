"""Compares a run in real time with what the conversation's file expects on the virtual clock: which
events came, the order of those of one item and of one response, their fields, and where in the
audio speech began and ended.

Times are not judged: these runs use the embedded recogniser and voice, the machine may be busy, and
the virtual clock already checks exact times. Instead they are printed as figures: how much later
than in the file an event followed its cause. The cause of speech events is the sound played, of a
transcript the commit, of a model request the transcript, and of reply audio the request."""

from conversation import UNTIMED, shown, words

# Two windows of voice activity detection, because the two runners have different resamplers.
POSITION = 64
ENDS_OF_RECOGNITION = {
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.failed",
}
# Reply audio is sent this many milliseconds ahead of its playback.
LEAD = 500


def kind(line):
    return line.get("event", "asked")


def number(lines):
    """Indexes lines by kind, owner and count."""
    counts, numbered = {}, {}
    for line in sorted(lines, key=lambda line: line["at"]):
        name = kind(line)
        if name in UNTIMED:
            continue
        key = name, line.get("item") or line.get("response")
        # Server and client may both truncate an item; which is first depends on which is late.
        if name == "conversation.item.truncated" and key in counts:
            continue
        counts[key] = counts.get(key, 0) + 1
        numbered[*key, counts[key]] = line
    return numbered


def nth(lines, name, number_of_event):
    """Time of the n-th event of a kind; None if it did not come."""
    times = sorted(line["at"] for key, line in lines.items() if key[0] == name)
    return times[number_of_event - 1] if len(times) >= number_of_event else None


class Judge:
    """Compares one run with its conversation's file."""

    def __init__(self, conversation):
        self.conversation = conversation
        self.expected = number(conversation.expected)
        self.seen = number(conversation.seen)
        self.problems = []
        # Delays of events, by kind.
        self.late = {}
        self.actions = self.timed_actions()
        self.judge()

    def timed_actions(self):
        """Times of the client's actions, in the file and in this run, in the file's order."""
        timed = []
        for action in self.conversation.actions:
            if "at" in action:
                timed.append((action["at"], action.get("done_at", action["at"]), action))
                continue
            expected, seen = (
                nth(lines, action["when"], action.get("nth", 1))
                for lines in (self.expected, self.seen)
            )
            after = action.get("after", 0)
            if expected is not None and seen is not None:
                timed.append((expected + after, action.get("done_at", seen + after), action))
        return sorted(timed, key=lambda entry: entry[0])

    def judge(self):
        for key in self.expected.keys() - self.seen.keys():
            self.problems.append(f"missing: {shown(self.expected[key])}")
        for key in self.seen.keys() - self.expected.keys():
            self.problems.append(f"unexpected: {shown(self.seen[key])}")
        if self.problems:
            return
        for key, expected in self.expected.items():
            self.judge_fields(key, expected, self.seen[key])
            self.note_time(key, expected, self.seen[key])
        self.judge_order()

    # Times

    def note_time(self, key, expected, seen):
        cause = self.cause(key, expected, seen)
        if cause is None:
            return
        late = (seen["at"] - cause[1]) - (expected["at"] - cause[0])
        self.late.setdefault(key[0], []).append(late)

    def cause(self, key, expected, seen):
        """Time of an event's cause, in the file and in this run."""
        name, reason = key[0], expected.get("reason")
        if name in ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"):
            return self.last_action(expected["at"], "sound")
        if name == "input_audio_buffer.timeout_triggered":
            return self.last_event(expected, {"response.output_audio.delta"}, self.played)
        if name == "input_audio_buffer.committed":
            return self.last_event(expected, {
                "input_audio_buffer.speech_stopped", "input_audio_buffer.timeout_triggered"
            }) or self.last_action(expected["at"], "send")
        if name in ENDS_OF_RECOGNITION:
            return self.last_event(expected, {"input_audio_buffer.committed"}, item=True)
        if name in ("asked", "response.created"):
            event = self.last_event(
                expected, ENDS_OF_RECOGNITION
                | {"response.done", "input_audio_buffer.timeout_triggered"})
            return max(event or (0, 0), self.last_action(expected["at"], "send") or (0, 0))
        if expected.get("status") == "completed" and "said" in expected:
            return self.last_event(expected, {"response.output_audio.delta"}, self.sent)
        if reason == "turn_detected":
            return self.last_event(expected, {"input_audio_buffer.speech_started"})
        if name == "conversation.item.truncated":
            causes = [
                self.last_action(expected["at"], "send"),
                self.last_event(expected, {"input_audio_buffer.speech_started", "asked"}),
            ]
            return max(filter(None, causes), default=None)
        if reason == "client_cancelled" or name == "error":
            return self.last_action(expected["at"], "send")
        return self.last_event(expected, {"asked"})

    def last_action(self, at, what):
        found = [
            (expected, seen) for expected, seen, action in self.actions
            if expected <= at and ((action["sound"] is not None) == (what == "sound"))
        ]
        return found[-1] if found else None

    def last_event(self, expected, names, time=lambda line: line["at"], item=False):
        found = [
            (time(line), time(self.seen[key])) for key, line in self.expected.items()
            if key[0] in names and line is not expected and line["at"] <= expected["at"]
            and (not item or line.get("item") == expected.get("item"))
        ]
        return max(found) if found else None

    @staticmethod
    def played(line):
        return line["at"] + line["audio_ms"]

    @staticmethod
    def sent(line):
        """The earliest time at which the last audio of a reply may be sent."""
        return line["at"] + max(0, line["audio_ms"] - LEAD)

    # Fields

    def judge_fields(self, key, expected, seen):
        for name in ("response", "item", "status", "reason", "code", "name", "arguments"):
            if expected.get(name) != seen.get(name):
                self.problems.append(f"{name} of {shown(seen)}, expected {shown(expected)}")
        if key[0] == "asked":
            # A reply that is interrupted at once may have been heard a little or not at all.
            roles = [
                [role for role in (text.split(" ")[0] for text in line["asked"])
                 if role != "assistant:"]
                for line in (expected, seen)
            ]
            if roles[0] != roles[1]:
                self.problems.append(f"{shown(seen)}, expected {shown(expected)}")
        if key[0] in ENDS_OF_RECOGNITION and "transcript" in expected:
            self.judge_words(expected["transcript"], seen["transcript"])
        for name in ("audio_start_ms", "audio_end_ms"):
            self.judge_position(key[0], name, expected, seen)

    def judge_words(self, expected, seen):
        """Requires that at least half of the spoken words are recognised."""
        known = [word for word in words(expected) if word in words(seen)]
        if 2 * len(known) < len(words(expected)):
            self.problems.append(f"heard {seen!r} for {expected!r}")

    def judge_position(self, kind_of_event, name, expected, seen):
        if name not in expected:
            return
        if kind_of_event == "conversation.item.truncated":
            sent = self.seen.get(("response.output_audio.delta", seen["item"], 1), {})
            if not 0 <= seen[name] <= sent.get("audio_ms", 0):
                self.problems.append(f"more than was sent, {shown(sent)}: {shown(seen)}")
            return
        if kind_of_event == "input_audio_buffer.timeout_triggered":
            return
        action = self.last_action(expected["at"], "sound")
        shift = action[1] - action[0] if action else 0
        # A sound begins at the microphone's position, and lost packets shorten the audio.
        allowed = POSITION + self.conversation.microphone.packet_ms
        # Padding that would reach before the audio is shortened.
        if expected[name] and abs(seen[name] - expected[name] - shift) > allowed:
            self.problems.append(
                f"{name} is {seen[name]}, expected {expected[name] + shift:.0f}: {shown(seen)}")

    # Order

    def judge_order(self):
        """Requires that events of one item, or of one response, come in the file's order."""
        for name in ("item", "response"):
            for alias in {line.get(name) for line in self.expected.values()} - {None}:
                chains = [
                    [key for key, line in sorted(lines.items(), key=lambda entry: entry[1]["at"])
                     if line.get(name) == alias]
                    for lines in (self.expected, self.seen)
                ]
                if chains[0] != chains[1]:
                    self.problems.append(f"{alias} comes as {chains[1]}, expected {chains[0]}")
