"""A real redis-server for tests: on a free port, and without files unless a test gives it a folder."""

import shutil
import signal
import subprocess

import redis
from parley_server import HANG_GUARD, free_port


class RedisServer:
    """Starts a server; it ends with the context, and with the tests' process. `client` reads what
    is in it."""

    INSTALLED = shutil.which("redis-server") is not None

    def __init__(self, port=None, arguments=()):
        self.port = port or free_port()
        self.arguments = arguments
        self.process = None
        self.client = redis.Redis(port=self.port, decode_responses=True, protocol=2)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        """Starts it, empty, and waits until it accepts connections."""
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", str(self.port),
             "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *self.arguments],
            stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                return
        raise AssertionError("redis-server has ended")

    def stop(self):
        self.process.kill()
        self.process.wait(HANG_GUARD)
        self.process.stdout.close()

    def suspend(self):
        """Stops its process, which keeps its connections."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def command(self, *words):
        """What redis-cli prints for a command."""
        return subprocess.run(
            ["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True,
            timeout=HANG_GUARD, check=True).stdout.strip()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()
