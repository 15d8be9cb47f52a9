# Prints a row of count-instructions.sh: the cost of one message, from two outputs of callgrind.
# callgrind_difference.py NAME CONNECTIONS BYTES MESSAGES ONCE TWICE
import re
import sys


def totals(path: str) -> tuple[int, dict[str, int]]:
    """All instructions, and how often each function was called."""
    names: dict[str, str] = {}
    calls: dict[str, int] = {}
    instructions = 0
    callee = ""
    for line in open(path, errors="replace"):
        if match := re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line):
            kind, number, name = match.groups()
            if name:
                names[number] = name
            callee = names[number] if kind == "cfn" else callee
        elif line.startswith("calls="):
            calls[callee] = calls.get(callee, 0) + int(line[6:].split()[0])
        elif line.startswith(("summary:", "totals:")):
            instructions = int(line.split()[1])
    return instructions, calls


name, connections, size, messages = sys.argv[1:5]
(once, once_calls), (twice, twice_calls) = map(totals, sys.argv[5:7])


def added(*functions: str) -> str:
    """Calls of some functions per message."""
    difference = sum(twice_calls.get(f, 0) - once_calls.get(f, 0) for f in functions)
    return f"{difference / int(messages):.2f}"


cells = [
    name,
    connections,
    size,
    str(round((twice - once) / int(messages))),
    added("malloc", "calloc", "realloc", "posix_memalign"),
    added("swift_retain", "swift_bridgeObjectRetain"),
    added("swift_release", "swift_bridgeObjectRelease"),
    added("swift_beginAccess"),
]
print("| " + " | ".join(cells) + " |")
