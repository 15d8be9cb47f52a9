"""A real PostgreSQL for tests: on a free port, in a folder of its own."""

import itertools
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

from parley_server import HANG_GUARD, free_port


def folders():
    return sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class PostgreSQLServer:
    """Makes a cluster and starts it; it ends with the context, and with the tests' process. Root may
    not run PostgreSQL, so for root the package's user does."""

    INSTALLED = bool(folders())

    def __init__(self):
        self.port = free_port()
        self.process = None
        self.names = (f"records_{number}" for number in itertools.count(1))
        self.database = "postgres"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="parley-postgresql-", dir="/tmp"))
        self.data = self.folder / "data"
        self.prefix = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.prefix = [
                "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    @property
    def url(self):
        return f"postgres://parley@127.0.0.1:{self.port}/{self.database}"

    def run(self, name, *arguments):
        return subprocess.run(
            [*self.prefix, str(folders()[0] / name), *arguments], capture_output=True, text=True,
            timeout=HANG_GUARD, check=True, cwd="/")

    def start(self):
        """Starts it and waits until it accepts connections."""
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "INT", *self.prefix, str(folders()[0] / "postgres"), "-D",
             str(self.data), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c",
             f"unix_socket_directories={self.folder}", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        while subprocess.run(
                [str(folders()[0] / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                check=False).returncode != 0:
            assert self.process.poll() is None, "postgres has ended"

    def begin_anew(self):
        """Makes another database, which is empty. Starts the server again if it was stopped."""
        if self.process.poll() is not None:
            self.start()
        name = next(self.names)
        self.query(f"CREATE DATABASE {name}")
        self.database = name

    def stop(self):
        """Ends it at once; clients lose their connections."""
        self.run("pg_ctl", "-D", str(self.data), "-m", "fast", "stop")
        self.process.wait(HANG_GUARD)

    def query(self, sql):
        """The lines that psql prints for a query, without decoration."""
        done = subprocess.run(
            [str(folders()[0] / "psql"), self.url, "-XAtq", "-c", sql], capture_output=True,
            text=True, timeout=HANG_GUARD, check=True)
        return done.stdout.splitlines()

    def __enter__(self):
        self.run(
            "initdb", "-D", str(self.data), "-U", "parley", "-A", "trust", "-E", "UTF8",
            "--no-sync")
        self.start()
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
