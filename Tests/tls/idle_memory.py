#!/usr/bin/env python3
"""Measures what an idle TLS WebSocket costs a server in user space.

    idle_memory.py PID PORT [CONNECTIONS] [--tls 1.2|1.3|none] [--session]

PID is a running `parley serve --tls-cert … --tls-key … --debug-echo true` on 127.0.0.1. The program
opens connections to /debug/echo with one message each, or sessions. It waits until the server's
memory has settled and compares the anonymous memory in /proc/PID/smaps_rollup with that before. A
hundred connections are opened and closed first, so that one-time allocations do not count.
"""

import argparse
import resource
import socket
import ssl
import time

REQUEST = (
    "GET {} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n\r\n"
)
SESSION = "/v1/realtime?model=demo"
# A masked text message "hello": its mask is zero.
MESSAGE = b"\x81\x85\0\0\0\0hello"


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as text:
        return sum(int(line.split()[1]) for line in text if line.startswith("Anonymous:")) * 1024


def settled_bytes(pid):
    """Memory once it has not changed for a second."""
    last = anonymous_bytes(pid)
    while True:
        time.sleep(1)
        now = anonymous_bytes(pid)
        if abs(now - last) < 65536:
            return now
        last = now


def open_socket(context, port, path):
    plain = socket.create_connection(("127.0.0.1", port))
    stream = context.wrap_socket(plain) if context else plain
    stream.sendall(REQUEST.format(path).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += stream.recv(4096)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    if path == SESSION:
        while b"session.created" not in answer:
            answer += stream.recv(4096)
        return stream
    stream.sendall(MESSAGE)
    assert stream.recv(64) == b"\x81\x05hello"
    return stream


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pid", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("connections", type=int, nargs="?", default=2000)
    parser.add_argument("--tls", choices=["1.2", "1.3", "none"], default="1.3")
    parser.add_argument("--session", action="store_true", help="sessions instead of echoes")
    options = parser.parse_args()
    path = SESSION if options.session else "/debug/echo"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    context = None
    if options.tls != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        version = ssl.TLSVersion.TLSv1_2 if options.tls == "1.2" else ssl.TLSVersion.TLSv1_3
        context.minimum_version = context.maximum_version = version

    for stream in [open_socket(context, options.port, path) for _ in range(100)]:
        stream.close()
    before = settled_bytes(options.pid)
    begin = time.monotonic()
    streams = [open_socket(context, options.port, path) for _ in range(options.connections)]
    seconds = time.monotonic() - begin
    after = settled_bytes(options.pid)
    print(
        f"TLS {options.tls}: {len(streams)} idle times {path}, "
        f"{(after - before) / len(streams):.0f} bytes each "
        f"({before / 1e6:.1f} → {after / 1e6:.1f} MB), opened in {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
