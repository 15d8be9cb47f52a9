"""Shows what the short slices of the event loops change: runs LoadTests/scenarios/thousand-turns.yaml with
them and without them, in turns, and prints the server's own delay of a delta. Needs Linux 6.12 or later.

    python3 LoadTests/peers/slice_effect.py [--rounds 3] [--parley .build/release/parley]

"Without" gives every thread of the server the kernel's own slice again, before the turns begin.
"""

import argparse
import ctypes
import os
import platform
import re
import resource
import subprocess
import time

SYSCALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
SCENARIO = "LoadTests/scenarios/thousand-turns.yaml"
ROWS = ["server's own delay of a delta", "CPU of the server"]
libc = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    """struct sched_attr of sched_setattr(2), its first version."""

    _fields_ = [
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64),
    ]


def reset_slices(process):
    """Gives each thread the kernel's slice; returns the slices that were asked for, in ns."""
    set_attributes, get_attributes = SYSCALLS[platform.machine()]
    found = []
    for thread in map(int, os.listdir(f"/proc/{process}/task")):
        attributes = Attributes(size=ctypes.sizeof(Attributes))
        if libc.syscall(get_attributes, thread, ctypes.byref(attributes), attributes.size, 0):
            continue
        found.append(attributes.runtime)
        attributes.runtime = 0
        if libc.syscall(set_attributes, thread, ctypes.byref(attributes), 0):
            raise SystemExit(f"sched_setattr: {os.strerror(ctypes.get_errno())}")
    return found


def server_of(parent):
    """The server that the load run has started, once it has threads for its event loops."""
    for _ in range(200):
        for child in subprocess.run(
                ["pgrep", "-P", str(parent), "-f", "^[^ ]* serve "],
                capture_output=True, text=True).stdout.split():
            if len(os.listdir(f"/proc/{child}/task")) > 2:
                return int(child)
        time.sleep(0.05)
    raise SystemExit("the server does not start")


def run(binary, has_slices):
    """The table's rows of one run."""
    load = subprocess.Popen(
        [".build/release/parley-load", "run", SCENARIO, "--shards", "2", "--no-pinned",
         "--parley", binary],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    process = server_of(load.pid)
    # The sessions take 5 s to open; the threads of the event loops stand from the start.
    time.sleep(1)
    if not has_slices:
        before = reset_slices(process)
        if 200_000 not in before:
            raise SystemExit("no thread of the server has a short slice: is this Linux 6.12 or later?")
    table, _ = load.communicate()
    if load.returncode:
        raise SystemExit("the scenario failed: run it alone to see why")
    return [re.search(rf"\| {name}[^|]*\| ([^|]*) \|", table).group(1) for name in ROWS]


def main():
    parser = argparse.ArgumentParser(description="what short slices of the event loops change")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parley", default=".build/release/parley")
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print("| round | slices of the event loops | p50 / p90 / p99 / p99.9, ms | CPU, server / generator, s |")
    print("|---|---|---|---|")
    for index in range(2 * given.rounds):
        has_slices = (index % 2 == 0) == (index // 2 % 2 == 0)
        delays, spent = run(given.parley, has_slices)
        title = "0.2 ms" if has_slices else "the kernel's"
        print(f"| {index // 2 + 1} | {title} | {delays} | {spent} |", flush=True)


if __name__ == "__main__":
    main()
