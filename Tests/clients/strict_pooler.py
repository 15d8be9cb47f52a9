"""A pooler before PostgreSQL that refuses parameters at the start which it does not know, as PgBouncer does
where it is configured as its package does. It passes on everything else."""

import contextlib
import socket
import struct
import threading

# What PgBouncer 1.18 takes beside `ignore_startup_parameters`.
KNOWN = {
    "user", "database", "application_name", "client_encoding", "datestyle", "timezone",
    "standard_conforming_strings",
}


class StrictPooler:
    """Listens from `with` to its end. `names` are the parameters of each client's start."""

    def __init__(self, port):
        self.target = port
        self.names = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.listen, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, contextlib.suppress(OSError, struct.error):
            start = self.read_start(client)
            words = start[8:].split(b"\0")
            names = [name.decode() for name in words[0:-2:2]]
            self.names.append(names)
            unknown = [name for name in names if name not in KNOWN]
            if unknown:
                text = f"unsupported startup parameter: {unknown[0]}"
                fields = f"SFATAL\0C08P01\0M{text}\0\0".encode()
                client.sendall(b"E" + struct.pack("!I", len(fields) + 4) + fields)
                return
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                server.sendall(start)
                threading.Thread(target=self.pass_on, args=(server, client), daemon=True).start()
                self.pass_on(client, server)

    def read_start(self, client):
        """The first message with parameters; a wish for TLS or GSSAPI is declined."""
        while True:
            head = client.recv(8, socket.MSG_WAITALL)
            length, code = struct.unpack("!II", head)
            if code >> 16 == 3:
                return head + client.recv(length - 8, socket.MSG_WAITALL)
            client.sendall(b"N")

    @staticmethod
    def pass_on(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
