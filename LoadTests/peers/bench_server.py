"""A Parley server for a measurement: on a free port, where asked on one core, with its CPU time, its
memory and its metrics. The measurements beside this file use it; it measures nothing itself."""

import os
import pathlib
import socket
import subprocess
import time
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class BenchServer:
    """Serves from `with` to its end. `core`: the only core that it uses; None: all."""

    def __init__(self, binary, *arguments, core=None, environment=None):
        self.port = free_port()
        pin = [] if core is None else ["taskset", "-c", str(core)]
        self.command = [*pin, binary, "serve", "--port", str(self.port), *map(str, arguments)]
        self.environment = {**os.environ, **(environment or {})}

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for _ in range(400):
            try:
                self.read("/healthz")
                return self
            except OSError:
                time.sleep(0.025)
        self.process.kill()
        raise RuntimeError(f"{self.command} does not listen")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def read(self, path):
        # A proxy of the environment is not asked for the machine itself.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(f"http://127.0.0.1:{self.port}{path}").read().decode()

    def metrics(self):
        """Every line of /metrics: its value by its name and labels."""
        lines = self.read("/metrics").splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def worker_seconds(self):
        """CPU time of the threads that run embedded models."""
        used = 0
        for folder in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            name, fields = (folder / "stat").read_text().rsplit(")", 1)
            if name.endswith("(worker"):
                used += sum(int(field) for field in fields.split()[11:13])
        return used / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def named_binaries(texts):
    """`NAME=BINARY` as pairs."""
    return [tuple(text.split("=", 1)) for text in texts]


def quantile(values, share):
    """The smallest value that the given share of all does not exceed; None without any."""
    if not values:
        return None
    index = min(len(values) - 1, max(0, round(share * len(values) + 0.5) - 1))
    return sorted(values)[index]


def milliseconds(seconds):
    return "–" if seconds is None else f"{1000 * seconds:,.0f}"
