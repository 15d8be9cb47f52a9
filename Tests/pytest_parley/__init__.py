"""What the client and the browser tests share: tokens for work that keeps a processor busy, the order in
which files go to the workers, and the end of a run with its figures, failures and counts.

A conftest.py loads it with `pytest_plugins`."""

import gc

import pytest

pytest_plugins = ["pytest_parley.tokens", "pytest_parley.order", "pytest_parley.report"]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Each worker reads all files, and so imports all libraries. Without the garbage collector, which
    finds nothing in modules, that takes half of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
