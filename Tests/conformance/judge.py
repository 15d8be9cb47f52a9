# Evaluates the report of the Autobahn suite. Every case must have run and be OK, in its behaviour
# and in how it closed. INFORMATIONAL is allowed only for the three cases that always report it,
# whatever the server does.
#
#   judge.py CASES REPORT…        CASES: a file with a case id a line; REPORT: an index.json
import json
import sys
from collections import Counter

# Cases 7.1.6, 7.13.1 and 7.13.2 replace their result by INFORMATIONAL (suite 25.10.1).
INFORMATIONAL = {"7.1.6", "7.13.1", "7.13.2"}


def verdict(name, result):
    """What is wrong with a case, or None."""
    if result is None:
        return "did not run"
    wanted = "INFORMATIONAL" if name in INFORMATIONAL else "OK"
    found = (result["behavior"], result["behaviorClose"])
    return None if found == (wanted, wanted) else "behaviour %s, close %s" % found


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        names = file.read().split()
    results = {}
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            for cases in json.load(file).values():
                results.update(cases)
    faults = {name: verdict(name, results.get(name)) for name in names}
    faults = {name: fault for name, fault in faults.items() if fault}
    for name, fault in faults.items():
        print(f"FAILED case {name}\n    {fault}\n    again: make conformance")
    counts = Counter(results[name]["behavior"] for name in names if name in results)
    print(", ".join(f"{count} {behavior}" for behavior, count in sorted(counts.items())))
    print(f"{len(names) - len(faults)} passed, {len(faults)} failed")
    sys.exit(1 if faults else 0)


main()
