"""A worker of a Redis stream whose replies can be counted, as those of numbered_model.py.

    numbered_worker.py URL --jobs 50

It is examples/worker with another agent, so that what is measured is what teams run."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/worker"))

import worker  # noqa: E402
from numbered_model import SECONDS_PER_WORD, pieces  # noqa: E402


def answer(request, job):
    """The same 24 words, whatever was asked."""
    for piece in pieces():
        yield piece
        time.sleep(SECONDS_PER_WORD)


if __name__ == "__main__":
    worker.answer = answer
    worker.main()
