"""A server with a memory limit, and clients that use more: which sessions are refused, which
connections are closed, and that the others continue.
Tests/ServerTests/Memory/ShardLedgerTests.swift checks the accounting on a simulated kernel."""

import asyncio
import json
import select
import struct
import time

import pytest
from parley_server import HANG_GUARD, ParleyServer
from talkers import Talker, speech
from test_hostile_peers import MIB, RawWebSocket, frame
from test_http import exchange, status_of, upgrade
from test_signals import wait_for_log

LIMIT = 64 * MIB


@pytest.fixture(scope="module")
def server():
    with ParleyServer("--max-memory-bytes", str(LIMIT), "--shards", "2") as server:
        yield server


def metric(server, name, label=""):
    """The sum of a metric's lines, or of those with a label."""
    lines = server.get("/metrics")[2].decode().splitlines()
    return sum(
        float(line.split()[-1]) for line in lines if line.startswith(name) and label in line
    )


def status(server, fields=()):
    head = exchange(server, upgrade(*fields, target="/v1/realtime"))
    return status_of(head), head


def message(size):
    """An event with a text of this size."""
    content = [{"type": "input_text", "text": "x" * size}]
    item = {"type": "message", "role": "user", "content": content}
    return frame(1, json.dumps({"type": "conversation.item.create", "item": item}).encode())


def test_the_largest_holder_is_closed_first_and_the_server_continues(server):
    modest = RawWebSocket(server, "/v1/realtime")
    assert modest.next()[0] == 1
    modest.send(message(100))
    # Each sends an unfinished message of 20 MiB; three of them exceed the limit. All have connected
    # before, because two of them may already close admission.
    greedy = [RawWebSocket(server, "/v1/realtime") for _ in range(4)]
    for peer in greedy:
        peer.next()
    for peer in greedy:
        peer.send(bytes([0x81, 0xFF]) + struct.pack(">Q", 20 * MIB) + bytes(4))
        peer.send(bytes([32]) * (18 * MIB))
    deadline = time.monotonic() + HANG_GUARD
    while metric(server, 'parley_memory_closes_total{limit="total"}') == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert metric(server, "process_resident_memory_bytes") < LIMIT * 1.25
    # As many connections have ended as the server closed; the others may continue.
    codes, left = [], {peer.socket: peer for peer in greedy}
    while len(greedy) - len(left) < metric(server, 'parley_memory_closes_total{limit="total"}'):
        ready = select.select(list(left), [], [], HANG_GUARD)[0]
        assert ready, codes
        for each in ready:
            try:
                opcode, payload = left[each].next()
                if opcode != 8:
                    continue
                codes.append(struct.unpack(">H", payload[:2])[0])
            except (EOFError, ConnectionError):
                pass
            del left[each]
    for peer in greedy:
        peer.socket.close()
    assert 1013 in codes and set(codes) == {1013}
    # The idle client continues, and there is room again.
    modest.send(message(100))
    while True:
        opcode, payload = modest.next()
        if json.loads(payload)["type"] == "conversation.item.done":
            break
    modest.socket.close()
    deadline = time.monotonic() + HANG_GUARD
    while True:
        try:
            with RawWebSocket(server, "/v1/realtime"):
                break
        except AssertionError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_everything_is_given_back(server):
    deadline = time.monotonic() + HANG_GUARD
    # The connection of this request itself remains.
    while metric(server, "parley_ledger_total_bytes") > 4_000 or metric(
        server, "parley_session_memory_bytes_count", 'state="idle"'
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert metric(server, "parley_session_memory_bytes_count", 'state="idle"') == 0


def has_line(server, text):
    return any(text in line for line in server.log_path.read_text().splitlines())


@pytest.mark.busy
def test_memory_of_the_recogniser_keeps_no_client_out():
    """Two utterances of nearly a minute, which the server recognises at the same time on its
    workers. That takes seconds of CPU, because only speech of that length takes the memory."""
    audio = speech(59)

    async def talk(server):
        async with Talker(server.port) as talker:
            await talker.commit(audio)
            await talker.commit(audio)
            return [await talker.transcript() for _ in range(2)]

    with ParleyServer("--max-memory-bytes", "450000000", "--worker-threads", "2") as server:
        for text in asyncio.run(asyncio.wait_for(talk(server), HANG_GUARD)):
            assert len(text.split()) > 100
        # The server reads the kernel's figure within a second or two.
        deadline = time.monotonic() + HANG_GUARD
        while True:
            ready = server.get("/readyz")[0]
            if ready == 200 and status(server)[0] == 101:
                break
            assert time.monotonic() < deadline, (ready, server.resident_bytes())
            time.sleep(0.5)
        assert metric(server, "parley_admission_closed", 'reason="memory"') == 0
        assert not has_line(server, "max-memory-bytes")


def test_a_limit_below_what_serving_needs_is_named_at_the_start():
    with ParleyServer("--max-memory-bytes", str(100 * MIB)) as server:
        assert has_line(server, "max-memory-bytes leaves too little")
        assert has_line(server, "needed_bytes=")
        assert server.get("/readyz")[0] == 200


def test_a_limit_below_the_server_itself_is_refused():
    with (
        pytest.raises(RuntimeError, match="give at least"),
        ParleyServer("--max-memory-bytes", str(MIB)),
    ):
        pass


def test_a_refusal_for_memory_is_logged_once_and_shown():
    """Clients fill the limit with unfinished messages, the last of 1 MiB each, and disconnect."""
    with ParleyServer("--max-memory-bytes", str(LIMIT), "--shards", "2") as server:
        peers, sent = [], 0
        deadline = time.monotonic() + HANG_GUARD
        while metric(server, "parley_admission_closed", 'reason="memory"') == 0:
            assert time.monotonic() < deadline
            try:
                peer = RawWebSocket(server, "/v1/realtime")
            except AssertionError:
                # Admission has closed meanwhile.
                continue
            peer.next()
            size = 8 * MIB if len(peers) < 4 else MIB
            peer.send(bytes([0x81, 0xFF]) + struct.pack(">Q", size) + bytes(4))
            peer.send(bytes([32]) * (size - 1))
            peers.append(peer)
            sent += size
            # After this much memory is looked at, so the next peer meets what was found.
            while metric(server, "parley_ledger_total_bytes") < sent:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert server.get("/readyz")[0] == 503
        for peer in peers:
            peer.socket.close()
        while server.get("/readyz")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # Another shard may answer before the one that has found it writes its line.
        lines = wait_for_log(server, "new sessions are taken").splitlines()
        begun = [line for line in lines if "new sessions are refused" in line]
        ended = [line for line in lines if "new sessions are taken" in line]
        assert len(begun) == len(ended) == 1
        for field in ("limit_bytes", "resident_bytes", "ledgers_bytes", "largest=ledgers"):
            assert field in begun[0]
