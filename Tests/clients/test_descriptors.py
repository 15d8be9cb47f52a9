"""A process without free file descriptors, and sessions that need one: for the model's service, the
speech model, or a program with tools. Each turn fails with a clear error, and works once a
descriptor is free. test_admission.py has the refusal of new connections."""

import asyncio
import base64
import json
import socket

import websockets.asyncio.client
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from raw_session import RawSession
from test_admission import REQUEST, cpu_seconds
from test_hostile_peers import descriptors
from test_http import status_of
from test_mcp import TOOLS

LIMIT = 64
HEARD = "conversation.item.input_audio_transcription.completed"
NOT_HEARD = "conversation.item.input_audio_transcription.failed"


class Turns(RawSession):
    """A session that types, speaks and lists tools."""

    async def typed(self, text):
        """The error of a typed turn, or None."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create")
        details = (await self.until("response.done"))["response"]["status_details"]
        return details and details.get("error") and details["error"]["code"]

    async def spoken(self, speech):
        """The error of a spoken turn, or None."""
        await self.send("input_audio_buffer.append", audio=base64.b64encode(speech).decode())
        await self.send("input_audio_buffer.commit")
        return (await self.until(HEARD, NOT_HEARD)).get("error", {}).get("code")

    async def tools(self):
        """Whether the tools of a program are listed."""
        tool = {"type": "mcp", "server_label": "tools", "require_approval": "never"}
        await self.send("session.update", session={"type": "realtime", "tools": [tool]})
        listed = await self.until("mcp_list_tools.completed", "mcp_list_tools.failed")
        if listed["type"] == "mcp_list_tools.failed":
            await self.until("error")
        await self.send("session.update", session={"type": "realtime", "tools": []})
        return listed["type"] == "mcp_list_tools.completed"


def fill(server):
    """Opens connections until one is refused, and keeps them open."""
    peers = []
    while True:
        peer = socket.create_connection(("127.0.0.1", server.port), timeout=HANG_GUARD)
        peer.sendall(REQUEST)
        peers.append(peer)
        if status_of(peer.recv(65536)) == 503:
            return peers


def test_turns_fail_by_name_without_descriptors_and_work_with_them(
    model, speech, tmp_path, figure
):
    # Takes seconds of CPU, for the recogniser and the program's packages, and a pause before its restart.
    configuration = tmp_path / "mcp.json"
    configuration.write_text(json.dumps(
        {"mcpServers": {"tools": {"command": TOOLS[0], "args": TOOLS[1:]}}}))
    server = ParleyServer(
        "--llm", model.url, "--shards", "1", "--worker-threads", "1", "--mcp-config",
        str(configuration), "--service-retries", "0", "--max-connections", "1000",
        PARLEY_LLM_KEY="the-key")
    server.arguments = ["prlimit", f"--nofile={LIMIT}:{LIMIT}", *server.arguments]

    async def test():
        url = server.realtime_url + "?model=m"
        async with (
            websockets.asyncio.client.connect(url, **PATIENT_WEBSOCKET) as first,
            websockets.asyncio.client.connect(url, **PATIENT_WEBSOCKET) as second,
        ):
            turns, others = Turns(first), Turns(second)
            peers = await asyncio.to_thread(fill, server)
            # Only now: naming its audio loads the recogniser, which opens files and closes them again.
            detection = {"turn_detection": None, "transcription": {"model": "any"}}
            await turns.send("session.update", session={
                "type": "realtime", "output_modalities": ["text"], "audio": {"input": detection}})
            begun = cpu_seconds(server.process.pid)
            for _ in range(3):
                assert await turns.typed("hello") == "upstream_error"
                assert await turns.spoken(speech) == "agent_unavailable"
                assert not await turns.tools()
            # Open connections are still served.
            peers[0].sendall(REQUEST.replace(b"/healthz", b"/"))
            assert status_of(peers[0].recv(65536)) == 200
            peers[1].sendall(REQUEST.replace(b"/healthz", b"/metrics"))
            assert status_of(peers[1].recv(65536)) == 200
            await others.send("session.update", session={"type": "realtime"})
            await others.until("session.updated")
            figure("turns without descriptors: "
                   f"{cpu_seconds(server.process.pid) - begun:.2f} s of CPU")
            for peer in peers:
                peer.close()
            while descriptors(server) > LIMIT // 2:
                await asyncio.sleep(0.02)
            assert await turns.typed("hello") is None
            assert await turns.spoken(speech) is None
            # A program that failed is started again after a pause, which each failure doubles.
            while not await turns.tools():
                await asyncio.sleep(0.05)
        log = server.log_path.read_text(encoding="utf-8")
        assert log.count("accepting paused") == 1
        assert len(log.splitlines()) < 60

    with server:
        asyncio.run(asyncio.wait_for(test(), HANG_GUARD))
