"""`parley talk` at a terminal: a line that is typed during a reply interrupts it. Lines from a pipe wait
for their turn."""

import os
import pty
import re
import select
import time

import pytest
from parley_server import BINARY, HANG_GUARD

NOT_ANSWERED = "(not answered: the next line came first)"


class Terminal:
    """`parley talk` with a terminal of its own; `text` is what the terminal got, what was typed
    included."""

    def __init__(self, server):
        self.text, self.got = "", b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execv(BINARY, [BINARY, "talk", "--url", server.realtime_url])

    def __enter__(self):
        self.until("you> ")
        return self

    def __exit__(self, *_):
        os.close(self.master)
        os.waitpid(self.pid, 0)

    def type(self, *lines):
        os.write(self.master, "".join(f"{line}\n" for line in lines).encode())

    def until(self, text, after=0):
        """Reads until a text comes; returns all text from `after` on."""
        deadline = time.monotonic() + HANG_GUARD
        while text not in self.text[after:]:
            assert time.monotonic() < deadline, f"{text!r} does not come: {self.text}"
            if select.select([self.master], [], [], 0.1)[0]:
                # A read may end within a character or a line's end.
                self.got += os.read(self.master, 65_536)
                self.text = self.got.decode(errors="ignore").replace("\r\n", "\n")
        return self.text[after:]


@pytest.fixture
def terminal(piped, model):
    model.second_half.clear()
    with Terminal(piped) as terminal:
        yield terminal
    model.second_half.set()


def numbers(text):
    return [int(number) for number in re.findall(r"\bw(\d+) ", text)]


def test_a_line_interrupts_the_reply_and_none_of_its_rest_is_shown(terminal):
    terminal.type("number 2000")
    terminal.until("w10 ")
    terminal.type("hello")
    shown = terminal.until("agent: You said: hello\nyou> ")
    reply, after = shown.split("       (interrupted)\n")
    said = numbers(reply)
    assert said == list(range(len(said))) and len(said) < 2_000
    # The line stands again behind the cut, because its echo is in the middle of the reply.
    assert after == "you:   hello\nagent: You said: hello\nyou> "
    # The interrupted reply is no failure, and the chat goes on.
    terminal.type("and now")
    terminal.until("agent: You said: and now\nyou> ", after=len(shown))


def test_a_line_before_the_first_word_supersedes_the_question(terminal, model):
    """The slow model has not said anything yet."""
    terminal.type("number 5 halts at 0")
    deadline = time.monotonic() + HANG_GUARD
    while model.requests[-1]["body"]["messages"][-1]["content"] != "number 5 halts at 0":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    terminal.type("hello")
    shown = terminal.until("agent: You said: hello\nyou> ")
    assert f"       {NOT_ANSWERED}\nyou:   hello\n" in shown and not numbers(shown)
    # The model is shown both lines.
    contents = [each["content"] for each in model.requests[-1]["body"]["messages"]]
    assert contents[-2:] == ["number 5 halts at 0", "hello"]


def test_a_blank_line_interrupts_nothing(terminal, model):
    terminal.type("number 20 halts at 10")
    terminal.until("w9 ")
    terminal.type("")
    model.second_half.set()
    shown = terminal.until("you> ", after=len(terminal.text))
    assert "w19" in shown and "interrupted" not in terminal.text


def test_of_pasted_lines_none_vanishes(terminal, model):
    """Each line has its answer, or is plainly superseded."""
    lines = [f"line {number}" for number in range(5)]
    terminal.type(*lines)
    shown = terminal.until(f"agent: You said: {lines[-1]}\nyou> ")
    cut = shown.count("(interrupted)") + shown.count(NOT_ANSWERED)
    whole = [line for line in lines if f"agent: You said: {line}\n" in shown]
    assert len(whole) >= 1
    # A reply of which a part was shown is one that was interrupted.
    assert cut + len(whole) >= len(lines)
    # The request of a reply that was interrupted may reach the model after that of the last line.
    asked = [[each["content"] for each in request["body"]["messages"] if each["role"] == "user"]
             for request in model.requests]
    assert any(said[-len(lines):] == lines for said in asked)


def test_lines_from_a_pipe_have_their_whole_answers(piped):
    done = piped.talk(typed="number 30\nhello\nnumber 20\n")
    assert done.returncode == 0, done.stderr
    assert numbers(done.stdout) == [*range(30), *range(20)]
    assert "agent: You said: hello" in done.stdout and "interrupted" not in done.stdout
