"""Each `parley …` command of a document, and each option that it gives, is one of the program's."""

import functools
import re
import subprocess

import pytest
from parley_server import BINARY, HANG_GUARD, ROOT

DOCUMENTS = sorted(
    path for folder, pattern in [
        (".", "*.md"), ("docs", "**/*.md"), ("examples", "**/*.md")]
    for path in (ROOT / folder).glob(pattern))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


@functools.cache
def help_of(*command):
    done = subprocess.run(
        [BINARY, *command, "--help"], capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def options(*command):
    # Of a flag and its opposite the help shows `--resume/--no-resume`.
    found = set(OPTION.findall(help_of(*command).replace("/--", " --")))
    if command in {("serve",), ("check",)}:
        # Its help names the most used ones. A unit test keeps the list of all of them true.
        reference = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
        found |= {f"--{name}" for name in re.findall(r'^\| <a id="([a-z0-9-]+)">', reference, re.MULTILINE)}
    return found


@functools.cache
def subcommands(*command):
    (_, _, rest) = help_of(*command).partition("SUBCOMMANDS:\n")
    return set(re.findall(r"^  ([a-z]+)(?: |$)", rest, re.MULTILINE)) | {"help"} if rest else set()


def commands(text):
    """The words behind `parley` in code, up to the end of its line, span or pipe."""
    text = text.replace("\\\n", " ")
    code = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    code += re.findall(r"^    .*$", text, re.MULTILINE) + re.findall(r"`[^`\n]+`", text)
    for block in code:
        for words in re.findall(r"^[`$ ]*(?:\S*/)?parley (?! )([^\n|;`&#]*)", block, re.MULTILINE):
            yield words.split()
        for words in re.findall(r'make run ARGS="([^"]*)"', block):
            yield ["serve", *words.split()]


def faults(text):
    for words in commands(text):
        command = []
        while words and subcommands(*command) and words[0] in subcommands(*command):
            command.append(words.pop(0))
        if not command:
            if words and re.fullmatch(r"[a-z]+", words[0]):
                yield f"parley {words[0]}"
            continue
        if subcommands(*command) and words and re.fullmatch(r"[a-z]+", words[0]):
            yield " ".join(["parley", *command, words[0]])
        for option in OPTION.findall(" ".join(words)):
            if option not in options(*command):
                yield " ".join(["parley", *command, option])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_document_exist(path):
    assert list(faults(path.read_text(encoding="utf-8"))) == []


def test_the_check_can_fail():
    text = "`parley sessions lost` and `parley serve --records x --recods y`\n\n    parley serf"
    assert sorted(faults(text)) == ["parley serf", "parley serve --recods", "parley sessions lost"]
