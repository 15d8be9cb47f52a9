#!/usr/bin/env python3
"""Runs the tests of the scripts in this folder, and prints the lines that scripts/test.sh reads."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def main():
    sys.path.append(str(HERE.parents[1] / "scripts"))
    suite = unittest.defaultTestLoader.discover(str(HERE))
    result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
    faults = result.failures + result.errors
    for test, trace in faults:
        reason = "\n".join(f"    {line}" for line in trace.strip().split("\n")[-6:])
        print(f"FAILED {test.id()}\n{reason}\n    again: make test-scripts")
    print(f"{result.testsRun - len(faults)} passed, {len(faults)} failed")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)


main()
