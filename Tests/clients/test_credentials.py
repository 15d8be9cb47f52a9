"""Keys, client secrets and tokens as real clients send them: with the openai SDK, as subprotocols,
and tokens made by PyJWT. Also the answers to clients without credentials."""

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess
import time

import jwt
import openai
import pytest
import websockets.sync.client
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from openai.types.realtime import ClientSecretCreateResponse, SessionCreatedEvent
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer, free_port
from websockets.exceptions import ConnectionClosed, InvalidStatus

KEY = "sk-key-0123456789abcdef"
OPERATOR = "sk-operator-0123456789abcdef"
SECRET = "a-secret-of-many-more-than-the-thirty-two-characters-that-it-must-have"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def key_set(*keys):
    return json.dumps({"keys": list(keys)})


def public_keys():
    return key_set(
        {**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa", "use": "sig"},
        {**ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec", "use": "sig"},
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The guarded server's files, which tests may change."""
    folder = tmp_path_factory.mktemp("credentials")
    keys = folder / "keys.txt"
    keys.write_text(f"# keys\n{KEY} name=app\n{OPERATOR} operator\nsk-one-0123456789abcdef "
                    "max-sessions=1 models=small\n")
    tokens = folder / "jwks.json"
    tokens.write_text(public_keys())
    return folder


@pytest.fixture(scope="module")
def guarded(files):
    """A server that accepts all three kinds of credentials."""
    with ParleyServer(
        "--api-keys-file", str(files / "keys.txt"), "--jwt-keys-file", str(files / "jwks.json"),
        "--jwt-audience", "parley", PARLEY_JWT_SECRET=SECRET,
    ) as server:
        yield server


def post(server, body, key=KEY, path="/v1/realtime/client_secrets"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        connection.request("POST", path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def open_session(server, key=None, subprotocols=None, query=""):
    headers = {"Authorization": f"Bearer {key}"} if key else None
    return websockets.sync.client.connect(
        server.realtime_url + query, additional_headers=headers, subprotocols=subprotocols,
        **PATIENT_WEBSOCKET,
    )


def session(server, key=None, subprotocols=None, query=""):
    """The first event of a connection's session; the status if the connection is refused."""
    try:
        with open_session(server, key, subprotocols, query) as connection:
            created = connection.recv(timeout=HANG_GUARD)
            return SessionCreatedEvent.model_validate_json(created).session
    except InvalidStatus as refusal:
        return refusal.response.status_code


def token(algorithm="HS256", key=SECRET, kid=None, **claims):
    claims = {"sub": "ann", "aud": "parley", "exp": int(time.time()) + 3600, **claims}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid else None)


# Keys


def test_the_sdk_connects_with_its_key_and_not_with_another(guarded):
    async def connect(key):
        client = openai.AsyncOpenAI(api_key=key, base_url=guarded.base_url)
        async with client.realtime.connect(
            model="m", websocket_connection_options=PATIENT_WEBSOCKET
        ) as connection:
            return (await connection.recv()).type

    assert asyncio.run(connect(KEY)) == "session.created"
    with pytest.raises(InvalidStatus) as refusal:
        asyncio.run(connect("sk-wrong"))
    assert refusal.value.response.status_code == 401
    assert refusal.value.response.headers["WWW-Authenticate"].startswith("Bearer ")


def test_the_sdk_knows_the_answer_to_a_wrong_key(guarded):
    client = openai.OpenAI(api_key="sk-wrong", base_url=guarded.base_url, max_retries=0)
    with pytest.raises(openai.AuthenticationError) as refusal:
        client.realtime.client_secrets.create()
    assert refusal.value.code == "invalid_api_key"
    assert refusal.value.type == "invalid_request_error"
    assert "sk-wrong" not in str(refusal.value)


def test_a_key_as_a_subprotocol_is_taken_and_not_selected(guarded):
    offer = ["realtime", f"openai-insecure-api-key.{KEY}", "openai-agents-sdk.0.4.0"]
    with open_session(guarded, subprotocols=offer) as connection:
        assert connection.subprotocol == "realtime"
        assert json.loads(connection.recv(timeout=HANG_GUARD))["type"] == "session.created"
    assert session(guarded, subprotocols=["realtime", "openai-insecure-api-key.wrong"]) == 401
    assert session(guarded, subprotocols=["realtime"]) == 401
    assert session(guarded, query=f"?api_key={KEY}") == 401


def test_pages_and_probes_are_open_and_metrics_are_the_operators(guarded):
    for path, key, status in [
        ("/", None, 200), ("/healthz", None, 200), ("/metrics", None, 401), ("/metrics", KEY, 403),
        ("/metrics", OPERATOR, 200), ("/v1/models", None, 401), ("/v1/models", KEY, 200),
    ]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        assert guarded.get(path, headers)[0] == status, path


def test_a_key_has_its_models_and_its_sessions(guarded):
    key = "sk-one-0123456789abcdef"
    assert session(guarded, key) == 403
    with open_session(guarded, key, query="?model=small"):
        with pytest.raises(InvalidStatus) as refusal:
            open_session(guarded, key, query="?model=small")
        assert refusal.value.response.status_code == 429
        assert refusal.value.response.headers["Retry-After"] == "5"


def test_a_credential_that_is_too_long_is_refused(guarded):
    assert session(guarded, "k" * 9000) == 401
    assert session(guarded, "k" * 20000) == 431


# Client secrets


def test_the_sdk_makes_a_secret_that_opens_its_session(guarded):
    client = openai.OpenAI(api_key=KEY, base_url=guarded.base_url)
    begun = int(time.time())
    made = client.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 600},
        session={
            "type": "realtime", "model": "bound", "instructions": "Be brief.",
            "audio": {"output": {"voice": "cedar"}},
        },
    )
    assert isinstance(made, ClientSecretCreateResponse) and made.value.startswith("ek_")
    assert begun <= made.expires_at - 600 <= time.time()
    assert made.session.type == "realtime" and made.session.id.startswith("sess_")
    assert made.session.model == "bound" and made.session.instructions == "Be brief."

    async def connect():
        ephemeral = openai.AsyncOpenAI(api_key=made.value, base_url=guarded.base_url)
        async with ephemeral.realtime.connect(
            model="other", websocket_connection_options=PATIENT_WEBSOCKET
        ) as connection:
            return (await connection.recv()).session

    offer = ["realtime", f"openai-insecure-api-key.{made.value}"]
    for opened in [asyncio.run(connect()), session(guarded, subprotocols=offer)]:
        assert opened.model == "bound" and opened.instructions == "Be brief."
        assert opened.audio.output.voice == "cedar"
    assert session(guarded, made.value + "x") == 401
    assert post(guarded, "{}", made.value)[0] == 403


def test_what_cannot_be_bound_is_refused_by_name(guarded):
    for body, code in [
        ('{"session": {"type": "translation"}}', "unsupported_session_type"),
        ('{"expires_after": {"seconds": 9}}', "invalid_value"), ("{", "invalid_json"),
    ]:
        status, answer = post(guarded, body)
        assert (status, answer["error"]["code"]) == (400, code)
    status, answer = post(guarded, "{}", path="/v1/realtime/translations/client_secrets")
    assert (status, answer["error"]["code"]) == (400, "unsupported_session_type")



def test_a_key_that_takes_all_it_can_leaves_the_others_their_secrets(files):
    with ParleyServer(
        "--api-keys-file", str(files / "keys.txt"), "--max-client-secrets", "64",
    ) as server:
        answers = [post(server, "{}")[0] for _ in range(100)]
        assert answers == [200] * 32 + [429] * 68
        status, answer = post(server, "{}")
        assert answer["error"]["code"] == "rate_limit_exceeded"
        status, made = post(server, "{}", OPERATOR)
        assert status == 200 and session(server, made["value"]).type == "realtime"

def test_without_credentials_all_clients_connect_and_secrets_still_bind(parley):
    assert session(parley).model == session(parley, "sk-anything").model
    status, made = post(parley, '{"session": {"type": "realtime", "instructions": "x"}}', None)
    assert status == 200
    assert session(parley, made["value"]).instructions == "x"


# Tokens


@pytest.mark.parametrize("algorithm, key, kid", [
    ("HS256", SECRET, None), ("RS256", RSA_KEY, "rsa"), ("RS256", RSA_KEY, None),
    ("ES256", EC_KEY, "ec"), ("ES256", EC_KEY, None),
])
def test_tokens_of_every_algorithm_open_sessions(guarded, algorithm, key, kid):
    assert session(guarded, token(algorithm, key, kid)).type == "realtime"


@pytest.mark.parametrize("change", [
    {"exp": 1}, {"exp": None}, {"aud": "other"}, {"aud": None}, {"nbf": 9999999999},
    {"key": SECRET + "x"}, {"kid": "rsa", "algorithm": "ES256", "key": EC_KEY},
    {"algorithm": "none", "key": None}, {"algorithm": "HS512"},
    {"parley": {"max_sessions": "many"}},
])
def test_wrong_tokens_are_refused(guarded, change):
    assert session(guarded, token(**change)) == 401


def test_an_expired_token_is_called_so(guarded):
    headers = {"Authorization": f"Bearer {token(exp=1)}"}
    status, fields, body = guarded.get("/v1/models", headers)
    assert status == 401 and b"expired" in body
    assert 'error="invalid_token"' in fields["WWW-Authenticate"]


def test_a_token_says_what_its_subject_may_have(guarded):
    limits = {"max_sessions": 1, "models": ["small"]}
    first, second = (token(sub="bob", jti=number, parley=limits) for number in "12")
    assert session(guarded, first) == 403
    with open_session(guarded, first, query="?model=small") as connection:
        assert session(guarded, second, query="?model=small") == 429


def test_a_token_says_how_long_a_session_lasts(guarded):
    short = token(sub="eve", parley={"max_session_seconds": 1})
    with open_session(guarded, short) as connection:
        assert json.loads(connection.recv(timeout=HANG_GUARD))["type"] == "session.created"
        error = json.loads(connection.recv(timeout=HANG_GUARD))["error"]
        assert error["code"] == "session_expired"
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(timeout=HANG_GUARD)
        assert closed.value.rcvd.code == 1001


# The operator's side


def reload(server, line):
    """Has the files read again, and waits for another such line in the log. Tries with old keys would
    count against the limit of failures."""
    before = server.log_path.read_text().count(line)
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + HANG_GUARD
    while server.log_path.read_text().count(line) == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_files_are_read_anew(guarded, files):
    new_key = "sk-new-0123456789abcdef"
    secret = post(guarded, "{}")[1]["value"]
    before = (files / "keys.txt").read_text()
    with open_session(guarded, KEY) as open_before:
        (files / "keys.txt").write_text(f"{new_key}\n{OPERATOR} operator\n")
        (files / "jwks.json").write_text(key_set(json.loads(public_keys())["keys"][1]))
        reload(guarded, "credentials reloaded")
        assert session(guarded, new_key).type == "realtime"
        for gone in [KEY, secret, token("RS256", RSA_KEY)]:
            assert session(guarded, gone) == 401
        assert session(guarded, token("ES256", EC_KEY)).type == "realtime"
        assert json.loads(open_before.recv(timeout=HANG_GUARD))["type"] == "session.created"
        open_before.send('{"type": "session.update", "session": {"type": "realtime"}}')
        assert json.loads(open_before.recv(timeout=HANG_GUARD))["type"] == "session.updated"
    # An invalid file leaves the credentials unchanged.
    (files / "keys.txt").write_text("half a line of something\n")
    reload(guarded, "credentials not reloaded")
    assert session(guarded, new_key).type == "realtime"
    (files / "keys.txt").write_text(before)
    (files / "jwks.json").write_text(public_keys())
    reload(guarded, "credentials reloaded")
    assert session(guarded, KEY).type == "realtime"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_is_refused_without_credentials(host):
    arguments = [BINARY, "serve", "--host", host, "--port", str(free_port())]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 or "refusing" in done.stderr.splitlines()[-1]
    assert "refusing to listen" in done.stderr and "--insecure" in done.stderr


def test_a_public_address_is_served_with_a_key_or_with_insecure():
    with ParleyServer("--host", "0.0.0.0", "--insecure") as server:
        assert session(server).type == "realtime"
    with ParleyServer("--host", "0.0.0.0", PARLEY_API_KEY=KEY) as server:
        assert session(server) == 401 and session(server, KEY).type == "realtime"
        assert "in plain" in server.log_path.read_text()


def test_parley_talk_shows_the_key(guarded):
    refused = guarded.talk("--text", "Hello")
    assert refused.returncode == 1 and "401" in refused.stderr
    assert guarded.talk("--key", KEY, "--text", "Hello").returncode == 0


def test_nothing_secret_is_in_the_log(guarded):
    log = guarded.log_path.read_text()
    assert "no credential" in log
    for secret in [KEY, OPERATOR, SECRET, "sk-wrong", "ek_", "eyJ"]:
        assert secret not in log
