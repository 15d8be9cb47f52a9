"""A real `parley serve` with TLS."""

import http.client
import ssl
import subprocess

from parley_server import HANG_GUARD, ParleyServer


class SecureServer(ParleyServer):
    """A server with a certificate of its own."""

    def __init__(self, folder, *arguments):
        self.certificate = folder / "cert.pem"
        key = folder / "key.pem"
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", key,
                "-out", self.certificate, "-days", "2", "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            ],
            check=True, capture_output=True,
        )
        super().__init__("--tls-cert", str(self.certificate), "--tls-key", str(key), *arguments)

    @property
    def realtime_url(self):
        return f"wss://localhost:{self.port}/v1/realtime"

    def context(self):
        return ssl.create_default_context(cafile=self.certificate)

    def get(self, path, headers=None):
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=HANG_GUARD, context=self.context()
        )
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()
