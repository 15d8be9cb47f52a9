# Prints the ids of the suite's cases in its order, one per line: all of them, or a short selection.
# Runs on the suite's own Python 2.7.
#
#   list_cases.py all|short
import sys

from autobahntestsuite import case
from autobahntestsuite.caseset import CaseSet

# The selected compression cases, which send a thousand messages each: small sizes, and one in
# fragments. The larger ones take most of the time.
SHORT_SIZES = (1, 2, 3, 4, 5, 11)


def main():
    cases = CaseSet(
        case.CaseSetname,
        case.CaseBasename,
        case.Cases,
        case.CaseCategories,
        case.CaseSubCategories,
    )
    for name in cases.parseSpecCases({"cases": ["*"]}):
        numbers = [int(number) for number in name.split(".")]
        is_compression = numbers[0] in (12, 13)
        if sys.argv[1] == "short" and is_compression and numbers[-1] not in SHORT_SIZES:
            continue
        print(name)


main()
