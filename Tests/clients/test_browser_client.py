"""A web page's client on Node: the key is sent as a subprotocol, and the server selects
`realtime`."""

import asyncio
import json
import os
import pathlib
import shutil

import pytest
from parley_server import HANG_GUARD, ParleyServer
from recording_proxy import RecordingProxy
from recordings import goforward, word_errors, words
from scenarios import check_nothing_after, side_by_side

SCRIPT = pathlib.Path(__file__).with_name("browser_client.js")
KEY = "realtime,openai-insecure-api-key.any-key"
AGENTS = f"{KEY},openai-agents-sdk.0.24.0"


async def play(wire, scenario, recording="", protocols=KEY):
    """Runs the page with a scenario: returns its status, its output and its errors."""
    url = f"{wire.realtime_url}?model=gpt-none-such"
    # The folder of Debian's modules.
    environment = os.environ | {"NODE_PATH": "/usr/share/nodejs"}
    process = await asyncio.create_subprocess_exec(
        "node", str(SCRIPT), scenario, url, protocols, str(recording), env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    try:
        out, trouble = await asyncio.wait_for(process.communicate(), HANG_GUARD)
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, out.decode(), trouble.decode()


async def browse(wire, *arguments, **options):
    """The page's report of a scenario."""
    status, out, trouble = await play(wire, *arguments, **options)
    # Warnings of the page would appear here as well.
    assert (status, trouble) == (0, "")
    seen = json.loads(out)
    assert seen["protocol"] == "realtime"
    assert "sec-websocket-protocol: realtime" in wire.answers[0].lower().split("\r\n")
    assert seen["model"] == "gpt-none-such"
    assert seen["errors"] == []
    assert seen["code"] == 1000
    return seen


async def text_turn(wire):
    seen = await browse(wire, "text", protocols=AGENTS)
    assert seen["replies"] == ["You said: hello"]


async def text_turn_without_a_key(wire):
    seen = await browse(wire, "text", protocols="realtime")
    assert seen["replies"] == ["You said: hello"]


def audio_turn(recording):
    async def audio_turn(wire):
        seen = await browse(wire, "audio", recording)
        assert word_errors(words("go forward ten meters"), words(seen["heard"][0])) <= 1
        assert "meters" in seen["replies"][0]
        assert seen["audio"] > 300

    return audio_turn


def barge_in(recording):
    async def barge_in(wire):
        seen = await browse(wire, "barge_in", recording)
        assert seen["statuses"] == [["cancelled", "turn_detected"], ["completed", None]]
        assert "meters" in seen["replies"][1]
        check_nothing_after(wire, wire.of("response.done")[0])

    return barge_in


async def cancel(wire):
    seen = await browse(wire, "cancel")
    assert seen["statuses"] == [["cancelled", "client_cancelled"], ["completed", None]]
    assert seen["replies"][1] == "You said: hello"
    assert wire.of("conversation.item.truncated")[-1]["audio_end_ms"] == 500


async def function_call(wire):
    seen = await browse(wire, "call")
    assert seen["replies"] == ["The answer is sunny in Oslo."]


NAMES = [
    "text_turn", "text_turn_without_a_key", "audio_turn", "barge_in", "cancel", "function_call",
]


@pytest.fixture(scope="module")
def run(piped, tmp_path_factory):
    if not shutil.which("node"):
        pytest.fail("node is missing: `scripts/setup-apt.sh test` installs it")
    recording = tmp_path_factory.mktemp("browser") / "speech.s16"
    recording.write_bytes(goforward())
    scenarios = [
        text_turn, text_turn_without_a_key, audio_turn(recording), barge_in(recording), cancel,
        function_call,
    ]
    assert [scenario.__name__ for scenario in scenarios] == NAMES
    with side_by_side(scenarios, piped) as result:
        yield {scenario.__name__: lambda each=scenario: result(each) for scenario in scenarios}


@pytest.mark.parametrize("name", NAMES)
def test_browser_client(run, name):
    # Some take real time: the page speaks as fast as its user does.
    run[name]()


def test_a_server_that_asks_for_a_key_takes_it_as_a_subprotocol(model):
    with ParleyServer("--llm", model.url, "--api-key", "right") as server:
        with RecordingProxy(server.port) as wire:
            protocols = "realtime,openai-insecure-api-key.right"
            assert asyncio.run(browse(wire, "text", protocols=protocols))["replies"]
        with RecordingProxy(server.port) as wire:
            protocols = "realtime,openai-insecure-api-key.wrong"
            status, _, trouble = asyncio.run(play(wire, "text", protocols=protocols))
            assert status == 1 and "401" in trouble
