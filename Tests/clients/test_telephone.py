"""Telephone calls of carriers against the release binary: signatures as another implementation makes
them, a spoken turn, an interruption, keys, parameters, hanging up."""

import asyncio
import base64
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import os
import subprocess
import wave

import pytest
import websockets
import websockets.sync.client
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from realtime_session import run
from recordings import DATA, convert
from telephone_line import Plivo, Twilio, call, speech
from websockets.exceptions import InvalidStatus

KEY = "sk-telephone-0123456789abcdef"
TOKEN = "12345"
URL = "wss://voice.example.com"


@pytest.fixture(scope="module")
def phone(model):
    """A server that takes calls, with a key, and the scripted model."""
    with ParleyServer(
        "--llm", model.url, "--model", "scripted", "--api-key", KEY, "--telephone",
        "twilio,plivo,telnyx", "--twilio-auth-token", TOKEN, "--telephone-url", URL,
        "--telephone-secret", "s3cret", PARLEY_LLM_KEY="the-key",
    ) as server:
        yield server


def signature(url, token=TOKEN):
    digest = hmac.new(token.encode(), url.encode(), hashlib.sha1).digest()
    return {"X-Twilio-Signature": base64.b64encode(digest).decode()}


SIGNED = signature(f"{URL}/twilio")
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("headers", [
    {}, signature(f"{URL}/telnyx"), signature(f"{URL}/twilio", "other"),
    signature("wss://127.0.0.1/twilio"),
])
def test_a_call_without_the_carriers_signature_is_refused(phone, headers):
    async def test():
        with pytest.raises(InvalidStatus) as refused:
            async with call(phone, Twilio(), headers=headers):
                pass
        assert refused.value.response.status_code == 403
        assert json.loads(refused.value.response.body)["error"]["code"] == "invalid_signature"

    run(test())


def dialled(port, headers):
    return websockets.sync.client.connect(
        f"ws://127.0.0.1:{port}/twilio", additional_headers=headers, **PATIENT_WEBSOCKET)


def test_the_port_of_the_url_may_be_signed_or_not_and_ids_are_ids():
    with ParleyServer(
        "--telephone", "twilio", "--twilio-auth-token", TOKEN,
        "--telephone-url", "wss://voice.example.com:8443",
    ) as server:
        for place in ("voice.example.com:8443", "voice.example.com"):
            with dialled(server.port, signature(f"wss://{place}/twilio")):
                pass
        with pytest.raises(InvalidStatus):
            dialled(server.port, signature("wss://voice.example.com:9999/twilio"))
        log = server.log_path.read_text(encoding="utf-8")
        assert "telephone-url" in log and "host, port and path" in log
        with dialled(server.port, signature("wss://voice.example.com/twilio")) as line:
            line.send(json.dumps({"event": "start", "start": {"callSid": "<b>\r\n\0"}}))
            with pytest.raises(websockets.exceptions.ConnectionClosed):
                line.recv(HANG_GUARD)
            assert line.close_code == 1008
        assert server.metric("parley_calls_refused_total") == "1"


CARRIERS = ["twilio", "telnyx", "exotel", "plivo", "vobiz", "asterisk"]
WAYS = {
    "Twilio, signed": (Twilio, None, SIGNED),
    "Plivo, with the key": (Plivo, None, BEARER),
    "Plivo, with the secret": (Plivo, "/plivo/s3cret", None),
}


def spoken_turn(phone, carrier, path, headers):
    """A call with one spoken turn, to the end of the reply; returns the line."""
    async def turn():
        async with call(phone, carrier(), path, headers) as line:
            line.say(speech())
            await line.until(lambda: line.played and not line.queue and not line.spoken)
            # The reply may have more: nothing follows once no response is in flight.
            while "replying" in await asyncio.to_thread(states, phone):
                await asyncio.sleep(0.1)
            await line.until(lambda: not line.queue)
            return line

    return asyncio.run(asyncio.wait_for(turn(), HANG_GUARD))


@pytest.fixture(scope="module")
def calls(phone, piped_phone, tmp_path_factory):
    """The calls that take as long as what is spoken in them, side by side; a test waits for its own. Those to
    `phone` are over: other tests look at all of its calls."""
    folder = tmp_path_factory.mktemp("calls")
    question = convert(DATA / "goforward.raw", folder / "question.wav")

    def carried(carrier):
        reply = folder / f"{carrier}.wav"
        return reply, played(
            piped_phone, "--carrier", carrier, "--wav", str(question), "--out", str(reply))

    with concurrent.futures.ThreadPoolExecutor(len(WAYS) + len(CARRIERS) + 3) as pool:
        of_phone = {way: pool.submit(spoken_turn, phone, *WAYS[way]) for way in WAYS}
        signed = ["--wav", str(question), "--signed-url", f"{URL}/twilio", "--calls", "3"]
        for name, token in [("signed", TOKEN), ("signed wrongly", "other")]:
            of_phone[name] = pool.submit(played, phone, *signed, "--auth-token", token)
        others = {carrier: pool.submit(carried, carrier) for carrier in CARRIERS}
        others["relay"] = pool.submit(
            played, piped_phone, "--carrier", "conversation-relay", "--text", "what time is it",
            "--press", "7", "--parameter", "dtmf=item")
        concurrent.futures.wait(of_phone.values())
        yield of_phone | others


@pytest.mark.parametrize("way", WAYS)
def test_a_spoken_turn_is_answered(calls, way):
    """All of the reply is played, in µ-law, and every mark has come back."""
    line = calls[way].result()
    assert len(line.received) > 8 * 500
    assert line.played == line.received
    assert not line.cleared
    assert any(code not in (0x7F, 0xFF) for code in line.received), "it is not silence"


def states(server):
    """What the sessions of the server do."""
    return {row["state"] for row in sessions(server)}


def sessions(server):
    status, _, body = server.get("/admin/sessions", BEARER)
    assert status == 200
    return json.loads(body)["data"]


def test_an_operator_sees_the_call(phone):
    async def test():
        async with call(phone, Twilio(**{"from": "+15550100"}), headers=SIGNED):
            while not (rows := [row for row in sessions(phone) if row["call"]]):
                await asyncio.sleep(0.05)
            assert rows[0]["call"] == {
                "carrier": "twilio", "call_id": "CA02a4a2b4", "from": "+15550100", "to": None,
            }

    run(test())


def cleared_marks(server):
    """Marks that came back after their audio was dropped."""
    page = server.get("/metrics", BEARER)[2].decode()
    name = 'parley_call_marks_total{outcome="cleared"} '
    return next(int(line[len(name):]) for line in page.splitlines() if line.startswith(name))


def test_the_caller_interrupts(phone):
    """The carrier is told to drop what it has, and marks of that come back without counting."""
    async def test():
        greeting = Twilio(greeting="number 60", turn_detection=json.dumps(
            {"type": "server_vad", "min_interruption_ms": 0}))
        before = cleared_marks(phone)
        async with call(phone, greeting, headers=SIGNED) as line:
            await line.until(lambda: len(line.played) > 4_000)
            line.say(speech())
            await line.until(lambda: line.cleared)
            assert line.cleared[0] > 0
            while cleared_marks(phone) == before:
                await asyncio.sleep(0.05)

    run(test())


def test_keys_become_a_turn(phone, model):
    async def test():
        async with call(phone, Twilio(dtmf="item"), headers=SIGNED) as line:
            for digit in "12#":
                await line.send(line.carrier.key(digit))
            await line.until(lambda: len(line.received) > 0)

    run(test())
    asked = [request["body"]["messages"][-1]["content"] for request in model.requests]
    assert "Keys pressed: 12#" in asked


@pytest.mark.parametrize("end", ["stop", "hangup"])
def test_a_call_ends(phone, end):
    async def test():
        async with call(phone, Twilio(), headers=SIGNED) as line:
            while not (rows := [row for row in sessions(phone) if row["call"]]):
                await asyncio.sleep(0.05)
            if end == "stop":
                await line.send(line.carrier.stop())
            else:
                hang_up(phone, rows[0]["id"])
            async with asyncio.timeout(HANG_GUARD):
                await line.connection.wait_closed()
            assert line.connection.close_code == 1000

    run(test())
    assert not [row for row in sessions(phone) if row["call"]]


def hang_up(server, session):
    """Ends a session as an application does."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    connection.request(
        "POST", f"/v1/realtime/calls/{session}/hangup", headers={**BEARER, "Content-Length": "0"})
    assert connection.getresponse().status == 200
    connection.close()


def played(server, *arguments):
    """Runs `parley call`, and returns its output."""
    return subprocess.run(
        [BINARY, "call", "--url", f"ws://127.0.0.1:{server.port}", "--patience", str(HANG_GUARD),
         *arguments],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False,
        env={**os.environ, "PARLEY_API_KEY": ""})


@pytest.mark.parametrize("carrier", CARRIERS)
def test_parley_call_plays_every_carrier(calls, carrier):
    reply, done = calls[carrier].result()
    assert done.returncode == 0, done.stderr + done.stdout
    assert "call 1: reply after " in done.stdout
    with wave.open(str(reply)) as file:
        assert file.getframerate() == 8000 and file.getnframes() > 4000


def test_parley_call_reads_a_relay(calls):
    done = calls["relay"].result()
    assert done.returncode == 0, done.stderr + done.stdout
    assert "You said: what time is it" in done.stdout
    assert "You said: Keys pressed: 7" in done.stdout


def test_parley_call_signs(calls):
    done = calls["signed"].result()
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("reply after") == 3
    refused = calls["signed wrongly"].result()
    assert refused.returncode == 1 and "403" in refused.stderr


@pytest.fixture(scope="module")
def piped_phone(model):
    """A server without keys that takes the calls of all carriers."""
    with ParleyServer(
        "--llm", model.url, "--model", "scripted", "--telephone",
        "twilio,signalwire,telnyx,exotel,plivo,vobiz,asterisk,conversation-relay",
        PARLEY_LLM_KEY="the-key",
    ) as server:
        yield server
