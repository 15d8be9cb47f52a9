"""Clients that send a storm of events of every kind; see `storm.py`.
Tests/ServerTests/Loop/ShardStormTests.swift does the same with seeds on a simulated kernel."""

import asyncio

import pytest
from parley_server import ParleyServer
from storm import storm

pytestmark = pytest.mark.busy


@pytest.mark.parametrize("niceness", [0, 10])
def test_every_response_of_a_storm_ends_and_every_connection_gets_its_close(niceness, figure):
    arguments = ["--max-nuisance-burst", "1000000"]
    with ParleyServer(*arguments, niceness=niceness) as server:
        tally = asyncio.run(storm(f"{server.realtime_url}?model=m", clients=6, seconds=5))
        figure(f"nice {niceness}: {tally}")
        assert tally.is_clean, tally
        # Checks that the storm was large enough.
        assert tally.created > 0 and tally.done > 0
