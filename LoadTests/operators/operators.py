"""What an operator's page costs a server with many sessions: the CPU time and the bytes of one connection to
/admin/live that shows the server and a page of 50 sessions, sorted by bytes, every second.

    operators.py [--sessions 10000] [--seconds 60] [--operators 1] [--shards 2]

Starts the server of PARLEY_TEST_BINARY on a loopback port, opens the sessions, waits until they are idle, and
measures the same time without an operator and with one. Sessions are plain sockets that never speak."""

import argparse
import json
import os
import pathlib
import resource
import selectors
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "Tests/clients"))

from parley_server import ParleyServer
from plain_websocket import open_socket, text_frame

# No ping is due while the sessions are idle.
HOUR = str(3_600_000)
TICKS = os.sysconf("SC_CLK_TCK")


class Messages:
    """Counts messages and their bytes in what comes from a server, which masks nothing."""

    def __init__(self, rest):
        self.rest = rest
        self.bytes = 0
        self.kinds = {}

    def forget(self):
        """Counts anew; a message that has begun goes on."""
        self.bytes, self.kinds = 0, {}

    def add(self, received):
        self.bytes += len(received)
        self.rest += received
        while len(self.rest) >= 2:
            size, start = self.rest[1], 2
            if size > 125:
                start = 4 if size == 126 else 10
                if len(self.rest) < start:
                    return
                size = int.from_bytes(self.rest[2:start], "big")
            if len(self.rest) < start + size:
                return
            if self.rest[0] == 0x81:
                kind = json.loads(self.rest[start:start + size])["type"]
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self.rest = self.rest[start + size:]


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(server, seconds, operators):
    """CPU seconds of the server. `operators` are sockets and what has come from them."""
    selector = selectors.DefaultSelector()
    for operator, messages in operators:
        messages.forget()
        selector.register(operator, selectors.EVENT_READ, messages)
    before, start = cpu_seconds(server.process.pid), time.monotonic()
    while (left := start + seconds - time.monotonic()) > 0:
        for ready, _ in selector.select(left):
            received = ready.fileobj.recv(1 << 20)
            if not received:
                raise RuntimeError("the server has closed an operator's connection")
            ready.data.add(received)
    selector.close()
    return cpu_seconds(server.process.pid) - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--operators", type=int, default=1)
    parser.add_argument("--shards", type=int, default=2)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ParleyServer(
        "--shards", str(options.shards), "--max-sessions", str(options.sessions + 10),
        "--max-connections", str(options.sessions + 100),
        PARLEY_PING_INTERVAL_MS=HOUR, PARLEY_IDLE_TIMEOUT_MS=HOUR,
    ) as server:
        kept = [open_socket(server.port, "/v1/realtime?model=any")[0] for _ in range(options.sessions)]
        # Memory of the handshakes is given back, and the sessions are idle.
        time.sleep(10)
        alone = measure(server, options.seconds, [])
        fields = "Sec-WebSocket-Protocol: parley-operator\r\n"
        operators = []
        for _ in range(options.operators):
            operator, rest = open_socket(server.port, "/admin/live", fields)
            operator.sendall(text_frame({"type": "sessions.watch", "sort": "bytes", "limit": 50}))
            operators.append((operator, Messages(rest)))
        # The samples of the last hour come once.
        measure(server, 3, operators)
        watched = measure(server, options.seconds, operators)
        pages = sum(messages.kinds.get("sessions.page", 0) for _, messages in operators)
        received = sum(messages.bytes for _, messages in operators)
        print(f"sessions                 {len(kept)}")
        print(f"operators                {len(operators)}")
        print(f"CPU without an operator  {100 * alone / options.seconds:.2f} % of a core")
        print(f"CPU with                 {100 * watched / options.seconds:.2f} % of a core")
        print(f"pages a second           {pages / options.seconds:.2f}")
        print(f"bytes a second           {received / options.seconds:.0f}")
        scans = float(server.metric("parley_session_scan_seconds_sum"))
        count = float(server.metric("parley_session_scan_seconds_count"))
        print(f"a shard's scan           {1000 * scans / max(1, count):.2f} ms")
        for connection in kept + [operator for operator, _ in operators]:
            connection.close()


if __name__ == "__main__":
    main()
