"""Files and values as operators have them in the end: damaged, cut, glued, with a line break or with null.

The cases are reports about other systems; their numbers stand in the tests."""

import base64
import hashlib
import json
import pathlib
import signal
import subprocess
import time
from datetime import datetime, timedelta, timezone

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from parley_server import HANG_GUARD, ParleyServer
from scripted_model import ScriptedModel
from test_signals import wait_for_log

KEY = "a-key-of-enough-length"


def refusal(*arguments, **environment):
    """The lines of a server that does not start."""
    server = ParleyServer(*arguments, **environment)
    with pytest.raises(RuntimeError, match="did not start"):
        with server:
            pass
    return server.log_path.read_text()


# Certificates


@pytest.fixture(scope="module")
def pems():
    """A root, two authorities below it and a certificate for localhost with its key, in PEM."""
    now = datetime.now(timezone.utc)

    def make(name, issuer=None):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
            .issuer_name(issuer[0].subject if issuer else subject)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(name != "localhost", None), True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        )
        return builder.sign((issuer or (None, key))[1], hashes.SHA256()), key

    root = make("root")
    upper = make("upper", root)
    lower = make("lower", upper)
    leaf = make("localhost", lower)
    texts = {
        name: pair[0].public_bytes(serialization.Encoding.PEM).decode()
        for name, pair in (("root", root), ("upper", upper), ("lower", lower), ("leaf", leaf))
    }
    texts["key"] = leaf[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return texts


def written(path, text):
    path.write_text(text)
    return str(path)


def damaged(pems):
    """Files of three certificates that OpenSSL's reader would use in part."""
    upper = pems["upper"]
    return {
        "glued": pems["leaf"] + pems["lower"].rstrip("\n") + upper,
        "cut": pems["leaf"] + pems["lower"] + upper[: len(upper) // 2],
        "cut within BEGIN": pems["leaf"] + pems["lower"] + upper[:20],
        "damaged": pems["leaf"] + pems["lower"].replace("MII", "!!!", 1) + upper,
    }


def served(server, root):
    """How many certificates a server sends, where a client with the root accepts them."""
    output = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", "localhost",
         "-CAfile", root, "-showcerts", "-verify_return_error"],
        input=b"", capture_output=True, timeout=HANG_GUARD, check=False,
    )
    return output.returncode == 0 and output.stdout.count(b"-----BEGIN CERTIFICATE-----")


@pytest.mark.parametrize("name", ["glued", "cut", "cut within BEGIN", "damaged"])
def test_a_damaged_chain_is_refused_and_a_reload_leaves_the_good_one(name, pems, tmp_path):
    """certbot#5721."""
    text = damaged(pems)[name]
    key, root = written(tmp_path / "key.pem", pems["key"]), written(tmp_path / "root.pem", pems["root"])
    chain = tmp_path / "chain.pem"
    tls = ["--tls-cert", written(chain, text), "--tls-key", key]
    assert "tls-cert: " in refusal(*tls)
    good = pems["leaf"] + pems["lower"] + pems["upper"]
    chain.write_text(good)
    for option in ("--tls-client-ca", "--service-ca"):
        lines = refusal(*tls, option, written(tmp_path / "authorities.pem", text))
        assert f"{option[2:]}: " in lines and "is damaged" in lines
    server = ParleyServer(*tls)
    server.is_alive = lambda: True
    with server:
        assert served(server, root) == 3
        chain.write_text(text)
        server.process.send_signal(signal.SIGHUP)
        assert "is damaged" in wait_for_log(server, "TLS files not reloaded: the old ones stay")
        assert served(server, root) == 3
        # A byte order mark is no damage.
        chain.write_text("\ufeff" + good)
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "TLS files reloaded")
        assert served(server, root) == 3


def test_a_chain_that_does_not_lead_to_its_issuer_is_named(pems, tmp_path):
    key = written(tmp_path / "key.pem", pems["key"])
    for text, words in [
        (pems["leaf"], "has no issuer of its last certificate"),
        (pems["leaf"] + pems["upper"], "certificate 2 is not the issuer of certificate 1"),
    ]:
        server = ParleyServer(
            "--tls-cert", written(tmp_path / "chain.pem", text), "--tls-key", key)
        server.is_alive = lambda: True
        with server:
            wait_for_log(server, words)


# Key sets


def public(key, **more):
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), **more}


def test_an_odd_key_leaves_the_others_also_at_a_rotation(tmp_path):
    """opa#3038, fastmcp#4515; RFC 7517 section 5."""
    first, second = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    odd = [
        public(rsa.generate_private_key(65537, 1024), kid="small"), {"kid": "no type"},
        {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA", "kid": "later"}, "text", None,
        {name: value for name, value in public(second, kid="no y").items() if name != "y"},
    ]
    path = tmp_path / "jwks.json"
    path.write_text("\ufeff" + json.dumps({"keys": [*odd, public(first, kid="first")]}))

    def status(key, kid):
        claims = {"sub": "ann", "exp": int(time.time()) + 3600}
        text = jwt.encode(claims, key, "ES256", headers={"kid": kid})
        return server.get("/v1/models", {"Authorization": f"Bearer {text}"})[0]

    with ParleyServer("--jwt-keys-file", str(path)) as server:
        wait_for_log(server, "without key 1, kid small", "without key 2", "without key 6, kid no y")
        assert status(first, "first") == 200 and status(second, "second") == 401
        nameless = [public(ec.generate_private_key(ec.SECP256R1())) for _ in range(12)]
        path.write_text(
            json.dumps({"keys": [*odd, public(second, kid="second"), *nameless]}))
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "credentials reloaded", "has 12 keys for ES256 without kid")
        assert status(second, "second") == 200 and status(first, "first") == 401
        path.write_text(json.dumps({"keys": odd}))
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "credentials not reloaded: the old ones stay")
        assert status(second, "second") == 200


def test_a_key_with_which_everyone_can_sign_is_left_out(tmp_path):
    """With the exponent 1, the signature of a text is its padded hash."""
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    key = public(rsa.generate_private_key(65537, 2048), kid="weak", e="AQ")
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [key, public(ec.generate_private_key(ec.SECP256R1()))]}))
    signed = ".".join(part(json.dumps(each).encode()) for each in (
        {"alg": "RS256", "kid": "weak"}, {"sub": "ann", "exp": int(time.time()) + 3600}))
    # PKCS #1 v1.5 around the name of SHA-256 and the hash (RFC 8017 section 9.2).
    name = bytes.fromhex("3031300d060960864801650304020105000420")
    ending = b"\0" + name + hashlib.sha256(signed.encode()).digest()
    signature = part(b"\0\1".ljust(256 - len(ending), b"\xff") + ending)
    forged = f"{signed}.{signature}"
    with ParleyServer("--jwt-keys-file", str(path)) as server:
        wait_for_log(server, "without key 1, kid weak", "an odd exponent above 1")
        assert server.get("/v1/models", {"Authorization": f"Bearer {forged}"})[0] == 401


def test_a_file_of_another_purpose_is_a_few_lines(tmp_path):
    odd = [{"kty": "AKP", "kid": f"key {number}"} for number in range(1_000)]
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(
        {"keys": [*odd, public(ec.generate_private_key(ec.SECP256R1()))]}))
    with ParleyServer("--jwt-keys-file", str(path)) as server:
        assert "without 990 more keys" in wait_for_log(server, "more keys")
        assert server.log_path.read_text().count("is used without") == 11


# Values


@pytest.mark.parametrize("word", ["", "~", "null"])
def test_null_is_not_set(word, tmp_path):
    """suricata#6105."""
    file = written(tmp_path / "a.yaml", f"host: 0.0.0.0\napi-key: {word}\nrecords: {word}\n")
    assert "without credentials" in refusal("--config", file)
    assert not pathlib.Path("null").exists()


def test_a_key_that_can_be_guessed_is_for_this_machine_alone(tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(f"\ufeff{KEY} operator\r\n")
    with ParleyServer("--host", "0.0.0.0", "--api-keys-file", str(keys)) as server:
        assert server.get("/metrics", {"Authorization": f"Bearer {KEY}"})[0] == 200
        keys.write_text("null operator\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "credentials not reloaded", "fewer than 16 characters")
        assert server.get("/metrics", {"Authorization": "Bearer null"})[0] == 401
        assert server.get("/metrics", {"Authorization": f"Bearer {KEY}"})[0] == 200
    assert "fewer than 16" in refusal("--host", "0.0.0.0", "--api-keys-file", str(keys))


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n"])
def test_a_file_without_keys_locks_nobody_out(text, tmp_path):
    """As a full disk leaves it behind."""
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEY} operator\n")
    with ParleyServer("--api-keys-file", str(keys)) as server:
        keys.write_text(text)
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "credentials not reloaded", "has no key")
        assert server.get("/metrics", {"Authorization": f"Bearer {KEY}"})[0] == 200
    assert "has no key" in refusal("--api-keys-file", str(keys))


@pytest.mark.parametrize("text", [",", " , ,"])
def test_commas_are_no_key(text):
    assert "api-key: it has no key" in refusal(PARLEY_API_KEY=text)


@pytest.mark.parametrize("end", ["\n", "\r\n", " "])
def test_a_secret_with_a_line_break_is_the_secret(end):
    """kthena#1636."""
    with ScriptedModel() as model, ParleyServer(
        "--llm", model.url, PARLEY_API_KEY=KEY + end, PARLEY_LLM_KEY="sk-model" + end
    ) as server:
        assert server.get("/metrics", {"Authorization": f"Bearer {KEY}"})[0] == 200
        assert server.talk("--text", "hello", "--key", KEY + end).returncode == 0
        assert model.requests[0]["headers"]["Authorization"] == "Bearer sk-model"
    assert "control character" in refusal(PARLEY_API_KEY="a-key-of\nenough-length")
    assert "control character" in refusal(PARLEY_LLM_KEY="sk\rmodel")


def test_a_provider_key_with_a_line_break_within_is_refused():
    provider = "name=o url=http://127.0.0.1:9/v1 key-env=OTHER_KEY"
    assert "OTHER_KEY of o has a control character" in refusal(
        "--providers", provider, OTHER_KEY="sk\nmodel")
    assert "OTHER_KEY of o is empty" in refusal("--providers", provider, OTHER_KEY=" \n")
