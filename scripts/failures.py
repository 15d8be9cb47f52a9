#!/usr/bin/env python3
"""Prints what failed in the logs of make targets: one block for each failed test.

    failures.py TARGET=LOG…

A block is the same for every kind of test:

    FAILED <test>
        <the assertion, or what stopped the test>
        server's log: <path>, and below it the log's last lines
        again: <the command that runs the test again>

Suites that print such blocks themselves are repeated as they are. From the output of Swift Testing, a
compiler, `swift format`, shellcheck and everything else the blocks are made here."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Lines of an assertion, of a diff with a stored file, and of a log that says no more than its end.
ASSERTION_LINES, DIFF_LINES, LOG_LINES = 6, 24, 15
LINE_LENGTH = 400
# Tests that had begun when their process ended.
MOST_RUNNING = 16
# Its tests can be run again by their files.
SWIFT_TARGET = "test-swift"
# Complete blocks of one target. After them come names alone.
MOST_BLOCKS = 20

# The lines of Swift Testing: a symbol, then a test or a suite by its title or its name in the code.
TEST = r'Test (?:"(?P<title>.*?)"|(?P<function>\w+\(.*?\)))'
TEST_OR_SUITE = r'(?:Test|Suite) (?:"(?P<title>.*?)"|(?P<function>\w+(?:\(.*?\))?))'
EVENT = re.compile(r"^[^\w\s\[] (?:Test|Suite) ")
STARTED = re.compile(rf"^\S {TEST} started\.$")
ENDED = re.compile(
    rf"^\S {TEST}(?: with \d+ test cases?)? (?:passed|failed|skipped|was cancelled)\b")
ISSUE = re.compile(
    rf"^\S {TEST_OR_SUITE} recorded an issue(?: with \d+ arguments? (?P<arguments>.*?))?"
    r"(?: at (?P<file>[^\s:]+\.swift):(?P<line>\d+):\d+)?: (?P<text>.*)$")
RUN_BEGAN = re.compile(r"^\S Test run started\.$")
RUN_ENDED = re.compile(r"^\S Test run with \d+ tests?\b.* (?:passed|failed) after ")
# Why a process ended before its tests did, and where: Swift's own report of a crash.
STOPPED = re.compile(
    r"Fatal error|Precondition failed|Assertion failed|Simultaneous accesses|Program crashed:"
    r"|Swift runtime failure|terminate called|exited with unexpected signal|ERROR: AddressSanitizer|WARNING: ThreadSanitizer"
    r"|timeout: sending signal")
CRASHED_THREAD = re.compile(r"^Thread \d+ .*crashed:$")
FRAME = re.compile(
    r"^ *\d+ (?:\[\w+\] +)* *0x[0-9a-f]+ (?P<function>.*?)(?: \+ \d+)? in \S+"
    r" at (?P<path>/\S+?):(?P<line>\d+)(?::\d+)?$")

COMPILER_ERROR = re.compile(r"(?:^|: )(?:fatal )?error: |undefined (?:reference|symbol)")
# They repeat that there was an error.
EMPTY_ERROR = re.compile(r"error: (?:fatalError$|\S+ command failed|.*use -v to see invocation)")
FORMAT_FINDING = re.compile(r"^\S+:\d+:\d+: (?:error|warning): \[\w+\]")
SHELLCHECK_PLACE = re.compile(r"^In (?P<file>\S+) line (?P<line>\d+):$")
SHELLCHECK_FINDING = re.compile(r"\^-*\^? (?P<text>SC\d+ .*)$")
# A line of pytest's own summary.
PYTEST_SUMMARY = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+\.py\S*)(?: - (?P<text>.*))?$")
NAMED_LOG = re.compile(r"(?P<path>\.build\S*/[\w./-]+\.log)\b")
MAKE_LINE = re.compile(r"^make(?:\[\d+\])?: ")


class Block:
    """What is shown of one failed test."""

    def __init__(self, name, lines, again):
        self.name = name
        self.lines = lines
        self.again = again

    def __str__(self):
        shown = [f"FAILED {self.name}"] + [f"    {line}" for line in self.lines]
        return "\n".join(shown + [f"    again: {self.again}"])


def shortened(lines, limit):
    """The first lines, and how many more there are."""
    lines = [line.rstrip() for line in lines if line.strip()]
    lines = [line if len(line) <= LINE_LENGTH else line[:LINE_LENGTH] + "…" for line in lines]
    if len(lines) <= limit:
        return lines
    return lines[:limit] + [f"… {len(lines) - limit} further lines"]


def relative(line):
    """A line without the folder of the repository."""
    return line.replace(f"{ROOT}/", "")


# ---- Blocks that a suite has printed ------------------------------------------------------


def printed_blocks(lines):
    """The blocks that stand in a log, as text."""
    blocks = {}
    for index, line in enumerate(lines):
        if not line.startswith("FAILED "):
            continue
        end = index + 1
        while end < len(lines) and lines[end].startswith("    "):
            end += 1
        # pytest's own summary has single lines.
        if end > index + 1:
            blocks.setdefault(line, "\n".join(lines[index:end]))
    return list(blocks.values())


def pytest_blocks(lines, target):
    """Blocks of the lines in pytest's own summary."""
    folder = {"test-clients": "Tests/clients", "test-browser": "Tests/browser"}.get(target)
    blocks = {}
    for line in lines:
        if found := PYTEST_SUMMARY.match(line):
            test = found["test"]
            again = f"{folder}/run.sh '{test}'" if folder else f"make {target}"
            blocks.setdefault(test, Block(test, [found["text"] or "no reason is given"], again))
    return list(blocks.values())


# ---- Swift Testing ------------------------------------------------------------------------


class SwiftSources:
    """Finds the files in which tests are declared."""

    def __init__(self, root=ROOT):
        self.files = {path: path.read_text(encoding="utf-8")
                      for path in sorted(root.glob("Tests/*Tests/**/*.swift"))}

    def declares(self, test, text):
        """Whether a file's text declares a test, given as the match of a line."""
        if test["title"] is not None:
            return f'"{test["title"]}"' in text
        name = test["function"].partition("(")[0]
        return re.search(rf"\b(?:func {name}[(<]|(?:struct|class|enum|actor) {name}\b)", text)

    def file_of(self, test, place=None):
        """The file that declares a test: the one called `place`, if it does. None if there is none."""
        found = [path for path, text in self.files.items() if self.declares(test, text)]
        for path in found:
            if path.name == place:
                return path
        return found[0] if found else None

    def again(self, path, issue=""):
        """The command that runs a file's tests again, with the seed that an issue names."""
        seed = re.search(r"\bseed(?: →)? (\d+)", issue)
        takes_seed = seed and "Seeds.chosen" in self.files[path]
        return (f"PARLEY_SEED={seed[1]} " if takes_seed else "") + f"make unit T={path.stem}"


def name_of(test):
    return test["function"] if test["title"] is None else f'"{test["title"]}"'


def issue_lines(lines, index, issue):
    """The text of an issue: the rest of its line, and what is written below it."""
    text = [issue["text"]]
    for line in lines[index + 1:index + 100]:
        if EVENT.match(line) or line.startswith("parley: "):
            break
        text.append(re.sub(r"^(?:[↳±] |  )", "", line))
    # "Issue recorded" says nothing where a comment follows.
    if len(text) > 1 and text[0] == "Issue recorded":
        del text[0]
    if issue["arguments"]:
        text.insert(0, issue["arguments"])
    return text


def swift_blocks(lines, target, sources):
    """One block for each test that recorded an issue, and one for a run that did not end."""
    issues = {}
    for index, line in enumerate(lines):
        if found := ISSUE.match(line):
            key = (name_of(found), sources.file_of(found, found["file"]))
            issues.setdefault(key, []).append((found, issue_lines(lines, index, found)))
    blocks = []
    for (name, path), found in issues.items():
        issue, text = found[0]
        again = f"make {target}"
        if target == SWIFT_TARGET and path:
            again = sources.again(path, " ".join(text))
        is_diff = any("UPDATE_GOLDEN=1" in line for line in text)
        text = shortened(text, DIFF_LINES if is_diff else ASSERTION_LINES)
        if len(found) > 1:
            text.append(f"and {len(found) - 1} further issues")
        place = f" at {issue['file']}:{issue['line']}" if issue["file"] else ""
        blocks.append(Block(name + place, text, again))
    return blocks + stopped_blocks(lines, target, sources)


def stopped_blocks(lines, target, sources):
    """A block for a run of Swift tests that has begun and not ended: a trap ends its whole process."""
    start = end = -1
    for index, line in enumerate(lines):
        if RUN_BEGAN.match(line):
            start = index
        elif RUN_ENDED.match(line):
            end = index
    if start <= end:
        return []
    lines = lines[start:]
    frames = crash_frames(lines)
    # The end of the process is reported in the middle of another line.
    text = [re.sub(r".*(error: )Process .*( exited)", r"\1the process\2", line)
            for line in lines if STOPPED.search(line)]
    text = list(dict.fromkeys(text))
    text = shortened(text or ["the tests ended without a result"] + last_lines(lines), LOG_LINES)
    text += [f"in {function} at {path}:{line}" for function, path, line in frames[:ASSERTION_LINES]]
    in_tests = [frame for frame in frames if ROOT / frame[1] in sources.files]
    tests = [] if in_tests else running_tests(lines)
    if tests:
        text += ["had begun and not ended:"]
        text += [f"  {line}" for line in shortened(map(name_of, tests), MOST_RUNNING)]
    files = {sources.file_of(test) for test in tests}
    name, again = f"the run of {target}", f"make {target}"
    if target == SWIFT_TARGET:
        # One at a time, the last that begins is the one.
        again = 'make test-swift ARGS="--no-parallel"'
        if len(files) == 1 and None not in files:
            again = sources.again(files.pop())
    if in_tests:
        function, path, line = in_tests[-1]
        name = f"{function} at {path.rpartition('/')[2]}:{line}"
        if target == SWIFT_TARGET:
            again = sources.again(ROOT / path)
    return [Block(name, text, again)]


def crash_frames(lines):
    """The frames of the crashed thread that are code of the repository, innermost first: function,
    path and line."""
    frames = []
    starts = [index for index, line in enumerate(lines) if CRASHED_THREAD.match(line)]
    for line in lines[starts[-1] + 2:] if starts else []:
        if not line.strip():
            break
        found = FRAME.match(line)
        if found and found["path"].startswith(f"{ROOT}/"):
            path = relative(found["path"])
            if not path.startswith("."):
                frames.append((found["function"], path, found["line"]))
    return frames


def running_tests(lines):
    """The tests that have begun and not ended."""
    running = {}
    for line in lines:
        if found := STARTED.match(line):
            running.setdefault(name_of(found), []).append(found)
        elif (found := ENDED.match(line)) and running.get(name_of(found)):
            running[name_of(found)].pop()
    return [test for tests in running.values() for test in tests]


# ---- Compilers, format and everything else ------------------------------------------------


def compiler_blocks(lines, target):
    """A block with each error of the compiler and the linker once."""
    errors = [relative(line) for line in lines
              if COMPILER_ERROR.search(line) and not EMPTY_ERROR.search(line)]
    errors = list(dict.fromkeys(errors))
    if not errors:
        return []
    text = shortened(errors, LOG_LINES)
    return [Block(f"the build of {target}", text, f"make {target}")]


def lint_blocks(lines, target):
    """A block with the findings of `swift format` and shellcheck."""
    findings = []
    place = ""
    for line in lines:
        if FORMAT_FINDING.match(line):
            findings.append(relative(line))
        elif found := SHELLCHECK_PLACE.match(line):
            place = f"{found['file']}:{found['line']}: "
        elif found := SHELLCHECK_FINDING.search(line):
            findings.append(place + found["text"])
    findings = list(dict.fromkeys(findings))
    return [Block(target, shortened(findings, LOG_LINES), f"make {target}")] if findings else []


def last_lines(lines):
    """The end of a log, and the end of a log that it names."""
    lines = [line for line in lines if line.strip() and not MAKE_LINE.match(line)]
    shown = [relative(line) for line in lines[-LOG_LINES:]]
    for path in dict.fromkeys(NAMED_LOG.findall("\n".join(shown))):
        if (file := ROOT / path).is_file():
            end = [line for line in read(file) if line.strip()][-LOG_LINES:]
            shown += [f"{path}:"] + [f"    {line}" for line in end]
    return shown


def read(path):
    """A log's lines, each as a terminal would show it."""
    text = path.read_bytes().decode(errors="replace")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]


def blocks_of(target, lines, sources):
    """The blocks of a failed target. There is at least one."""
    # A suite that prints blocks has one for everything that failed.
    if blocks := printed_blocks(lines):
        return blocks
    blocks = pytest_blocks(lines, target) + swift_blocks(lines, target, sources)
    blocks = blocks + lint_blocks(lines, target)
    # A run of tests shows that the build before it succeeded.
    blocks = blocks or compiler_blocks(lines, target)
    return blocks or [Block(f"make {target}", last_lines(lines), f"make {target}")]


def report(target, lines, sources, log):
    """The blocks of a failed target as text."""
    blocks = [str(block) for block in blocks_of(target, lines, sources)]
    more = [block.split("\n")[0] for block in blocks[MOST_BLOCKS:]]
    if more:
        more.append(f"    the whole log: {relative(log)}")
    return "\n".join(blocks[:MOST_BLOCKS] + more)


def main():
    sources = SwiftSources()
    for argument in sys.argv[1:]:
        target, _, log = argument.partition("=")
        path = pathlib.Path(log)
        lines = read(path) if path.is_file() else ["the target did not run"]
        print(report(target, lines, sources, log))


if __name__ == "__main__":
    main()
