"""MCP servers in a session: real servers made with PyPI's `mcp`, over streamable HTTP and stdio,
called for a scripted model, and reported to the official SDK's realtime client. Version 2 of the
library speaks the stateless revision, version 1 those with a handshake."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from parley_server import HANG_GUARD, ROOT, ParleyServer, free_port
from realtime_session import connect, run

HERE = pathlib.Path(__file__).parent
TOOLS = [sys.executable, str(HERE / "mcp_tool_server.py")]
EARLIER = [
    str(ROOT / ".venv-earlier" / "bin" / "python"), str(HERE / "mcp_earlier_server.py"),
]
NAMES = [
    "add", "fail", "slow", "meet", "big", "drop", "headers", "process", "protocol", "near", "order",
    "search",
]


@contextlib.contextmanager
def http_server(port, *arguments, command=TOOLS, **environment):
    """Runs a tool server over HTTP, and yields once it listens."""
    process = subprocess.Popen(
        [*command, str(port), *arguments], env=os.environ | environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + HANG_GUARD
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """The file in which the tools record their calls."""
    return tmp_path_factory.mktemp("mcp") / "trace"


@pytest.fixture(scope="module")
def tools(trace):
    """The URL of a tool server that answers with event streams."""
    with http_server(free_port(), MCP_TRACE=str(trace)) as url:
        yield url


@pytest.fixture(scope="module")
def server(model, trace, tmp_path_factory):
    """A server that has a program configured under the label `local`."""
    configuration = tmp_path_factory.mktemp("mcp") / "servers.json"
    configuration.write_text(json.dumps({
        "mcpServers": {
            "local": {
                "command": TOOLS[0], "args": TOOLS[1:], "env": {"MCP_TRACE": str(trace)},
            },
            "earlier": {"command": EARLIER[0], "args": EARLIER[1:]},
            "missing": {"command": "no-such-program-anywhere"},
        }
    }))
    with ParleyServer(
        "--llm", model.url, "--mcp-config", str(configuration), "--max-mcp-result-bytes", "1000",
    ) as parley:
        yield parley


def await_end(process):
    """Waits until nothing is left of a process."""
    deadline = time.monotonic() + HANG_GUARD
    while pathlib.Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def mcp(label="tools", **fields):
    return {"type": "mcp", "server_label": label, "require_approval": "never", **fields}


async def use(session, *tools):
    """Sets the session's tools, and waits until those of MCP servers are listed."""
    await session.update(output_modalities=["text"], tools=list(tools))
    for tool in tools:
        if tool["type"] == "mcp":
            await session.until("mcp_list_tools.completed")


async def ask(session, text, responses=2):
    """Sends a message, and reads to the end of `responses` responses; returns their events."""
    await session.say(text)
    start = len(session.events)
    await session.connection.response.create()
    for _ in range(responses):
        await session.until("rate_limits.updated")
    return session.events[start:]


def items(events, kind):
    return [
        event.item for event in events
        if event.type == "conversation.item.done" and event.item.type == kind
    ]


def said(events):
    done = [event for event in events if event.type == "response.output_text.done"]
    return done[-1].text if done else None


@pytest.mark.parametrize("answers", ["streams", "json"])
def test_a_tool_is_listed_and_called_over_http(server, tools, answers):
    async def test(url):
        async with connect(server) as session:
            await use(session, mcp(server_url=url))
            listed = items(session.events, "mcp_list_tools")[0]
            assert [tool.name for tool in listed.tools] == NAMES
            types = session.types()
            assert types[-4:] == [
                "mcp_list_tools.in_progress", "conversation.item.added",
                "conversation.item.done", "mcp_list_tools.completed",
            ]
            events = await ask(session, 'call tools__add {"a":1,"b":2}')
            call = items(events, "mcp_call")[0]
            assert (call.name, call.server_label, call.output) == ("add", "tools", "3")
            assert json.loads(call.arguments) == {"a": 1, "b": 2}
            order = [event.type for event in events]
            done = [
                "response.mcp_call_arguments.done", "response.mcp_call.in_progress",
                "response.mcp_call.completed", "conversation.item.done",
                "response.output_item.done", "response.done", "rate_limits.updated",
                "response.created",
            ]
            begin = order.index(done[0])
            assert order[begin:begin + len(done)] == done
            assert said(events) == "The answer is 3."
            await session.connection.conversation.item.delete(item_id=listed.id)
            await session.until("conversation.item.deleted")

    if answers == "streams":
        return run(test(tools))
    with http_server(free_port(), "json") as url:
        return run(test(url))


async def outcome(session, text):
    """What the one call of a message has given: its output, or its error's message."""
    call = items(await ask(session, text), "mcp_call")[0]
    return call.output or call.error.message


@pytest.mark.parametrize("options", [(), ("json",), ("stateless",)])
def test_a_server_of_an_earlier_revision_gets_the_handshake(server, options):
    async def test(url):
        async with connect(server) as session:
            await use(session, mcp(server_url=url))
            assert await outcome(session, 'call tools__add {"a":1,"b":2}') == "3"
            assert await outcome(session, "call tools__protocol {}") == "2025-06-18 None"
            assert "out of luck" in await outcome(session, "call tools__fail {}")

    with http_server(free_port(), *options, command=EARLIER) as url:
        run(test(url))


def test_a_server_of_the_stateless_revision_gets_no_handshake(server, tools):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools))
            assert await outcome(session, "call tools__protocol {}") == "2026-07-28 tools/call"

    run(test())


def test_a_program_of_an_earlier_revision_gets_the_handshake(server):
    async def test():
        async with connect(server) as session:
            await use(session, mcp("earlier"))
            assert await outcome(session, 'call earlier__add {"a":1,"b":2}') == "3"

    run(test())


def test_a_server_may_change_its_revision_within_a_session(server):
    # Takes seconds of CPU: three tool servers load their packages.
    async def test():
        port = free_port()
        async with connect(server) as session:
            with http_server(port) as url:
                await use(session, mcp(server_url=url))
                assert "2026-07-28" in await outcome(session, "call tools__protocol {}")
            with http_server(port, command=EARLIER):
                assert "2025-06-18" in await outcome(session, "call tools__protocol {}")
            with http_server(port):
                assert "2026-07-28" in await outcome(session, "call tools__protocol {}")

    run(test())


def test_a_question_of_a_tool_goes_to_the_user_and_the_answer_to_the_tool(server, tools, trace):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools), mcp("local"))
            for label in ("tools", "local"):
                events = await ask(session, f'call {label}__order {{"drink":"tea"}}')
                error = items(events, "mcp_call")[0].error
                assert error.type == "tool_execution_error"
                for part in ("Which size of tea?", "size: string, required", "small or large",
                             "sugar: boolean, optional", '"user_answers"'):
                    assert part in error.message
                # The model has read it, and its next words reach the user.
                assert "Which size of tea?" in said(events)
                answered = '{"drink":"tea","user_answers":{"size":"large","sugar":true}}'
                text = await outcome(session, f"call {label}__order {answered}")
                assert text == "large tea with sugar"
                declined = '{"drink":"cocoa","user_answers":"declined"}'
                assert "decline" in (await outcome(session, f"call {label}__order {declined}"))
                assert "roots" in (await outcome(session, f"call {label}__search {{}}"))

    run(test())
    lines = trace.read_text().splitlines()
    assert [line for line in lines if line.startswith("ordered")] == ["ordered large tea"] * 2


def test_marked_arguments_are_repeated_in_header_fields(server, tools):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools))
            for region, sent in [("eu", "eu"), ("süd", "=?base64?c8O8ZA==?="),
                                 ("a\r\nX-Y: z", "=?base64?YQ0KWC1ZOiB6?=")]:
                arguments = json.dumps({"region": region, "count": 3}, separators=",:")
                text = await outcome(session, f"call tools__near {arguments}")
                assert text == f"{region} {sent} 3 3"

    run(test())


def test_a_list_that_may_be_kept_is_not_fetched_again(server):
    async def test():
        port = free_port()
        with http_server(port, MCP_LIST_TTL_MS="3600000") as url:
            async with connect(server) as session:
                await use(session, mcp(server_url=url))
        # The server is gone, but not its list for the same credentials.
        async with connect(server) as session:
            await use(session, mcp(server_url=url))
            assert [tool.name for tool in items(session.events, "mcp_list_tools")[0].tools] == NAMES
            assert "cannot be reached" in await outcome(session, "call tools__process {}")
        async with connect(server) as session:
            await session.update(
                output_modalities=["text"], tools=[mcp(server_url=url, authorization="other")])
            await session.until("mcp_list_tools.failed")

    run(test())


def test_a_tool_that_fails_is_told_to_client_and_model(server, tools):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools))
            events = await ask(session, "call tools__fail {}")
            call = items(events, "mcp_call")[0]
            assert call.error.type == "tool_execution_error"
            assert "out of luck" in call.error.message
            assert "response.mcp_call.failed" in [event.type for event in events]
            assert "out of luck" in said(events)
            events = await ask(session, 'call tools__add {"a":"no number","b":2}')
            assert items(events, "mcp_call")[0].error.message

    run(test())


def test_answers_have_a_limit_of_size(server, tools):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools))
            events = await ask(session, 'call tools__big {"size":50000}')
            output = items(events, "mcp_call")[0].output
            assert output.startswith("x" * 1000) and len(output) < 1100

    run(test())


def test_answers_have_a_limit_of_time(model, tools):
    async def test(parley):
        async with connect(parley) as session:
            await use(session, mcp(server_url=tools))
            # Longer than the test waits, so only the limit can end the call.
            events = await ask(session, 'call tools__slow {"seconds":3600}')
            assert items(events, "mcp_call")[0].error.type == "protocol_error"

    with ParleyServer("--llm", model.url, "--mcp-call-timeout-ms", "500") as parley:
        run(test(parley))


def test_calls_run_side_by_side(server, tools):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools))
            # Each call is answered only while the other one runs.
            events = await ask(session, 'call tools__meet {"count":2} and tools__meet {"count":2}')
            assert [call.output for call in items(events, "mcp_call")] == ["all here"] * 2

    run(test())


def test_a_call_waits_for_its_approval(server, tools, trace):
    async def answer(session, request, approve):
        start = len(session.events)
        await session.connection.conversation.item.create(item={
            "type": "mcp_approval_response", "id": f"answer_{request.id}",
            "approval_request_id": request.id, "approve": approve,
        })
        await session.until("rate_limits.updated")
        return session.events[start:]

    async def test():
        async with connect(server) as session:
            approval = {"never": {"read_only": True}}
            await use(session, mcp(server_url=tools, require_approval=approval))
            events = await ask(session, 'call tools__add {"a":2,"b":2}')
            assert said(events) == "The answer is 4."
            events = await ask(session, 'call tools__drop {"table":"users"}', 1)
            request = items(events, "mcp_approval_request")[0]
            assert json.loads(request.arguments) == {"table": "users"}
            events = await answer(session, request, False)
            assert "did not approve" in said(events)
            assert "dropped users" not in trace.read_text()
            events = await ask(session, 'call tools__drop {"table":"logs"}', 1)
            request = items(events, "mcp_approval_request")[0]
            events = await answer(session, request, True)
            call = items(events, "mcp_call")[0]
            assert (call.output, call.approval_request_id) == ("dropped logs", request.id)
            assert said(events) == "The answer is dropped logs."
            assert "dropped logs" in trace.read_text()

    run(test())


def test_a_cancelled_call_is_cancelled_at_its_server_and_the_session_lives_on(
    server, tools, trace
):
    def await_trace(line):
        deadline = time.monotonic() + HANG_GUARD
        while line not in trace.read_text().splitlines():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools))
            # A duration that no other test has.
            await session.say('call tools__slow {"seconds":7200}')
            await session.connection.response.create()
            await session.until("response.mcp_call.in_progress")
            # The event comes before the tool has the call.
            await_trace("slow 7200 has begun")
            await session.connection.response.cancel()
            done = (await session.until("response.done")).response
            assert done.status == "cancelled"
            assert done.output[0].error.type == "tool_execution_error"
            events = await ask(session, "still there?", 1)
            assert said(events) == "You said: still there?"
            await_trace("slow 7200 was cancelled")

    run(test())


def test_only_allowed_tools_are_offered_with_what_the_client_sends_for_them(
    server, tools, model
):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(
                server_url=tools, allowed_tools=["headers"], authorization="a-token",
                headers={"X-Tenant": "seven"},
            ))
            told = session.of("session.updated")[-1].session.tools[0]
            assert told.authorization is None and told.headers is None
            listed = items(session.events, "mcp_list_tools")[0]
            assert [tool.name for tool in listed.tools] == ["headers"]
            events = await ask(session, "call tools__headers {}")
            assert items(events, "mcp_call")[0].output == "Bearer a-token seven"
            offered = model.requests[-1]["body"]["tools"]
            assert [tool["function"]["name"] for tool in offered] == ["tools__headers"]
            events = await ask(session, 'call tools__drop {"table":"all"}')
            assert "no such tool" in items(events, "mcp_call")[0].error.message

    run(test())
    assert "a-token" not in server.log_path.read_text()


def test_functions_of_the_client_and_mcp_tools_in_one_response(server, tools):
    async def test():
        async with connect(server) as session:
            await use(session, mcp(server_url=tools), {"type": "function", "name": "mine"})
            events = await ask(session, 'call mine {} and tools__add {"a":3,"b":4}', 1)
            call = items(events, "function_call")[0]
            assert items(events, "mcp_call")[0].output == "7"
            await session.connection.conversation.item.create(item={
                "type": "function_call_output", "call_id": call.call_id, "output": "my own",
            })
            await session.until("conversation.item.done")
            events = await session.respond()
            assert said(events) in ("The answer is my own.", "The answer is 7.")

    run(test())


def test_a_program_of_the_operator_serves_all_sessions_and_is_started_again(server, trace):
    async def test():
        async with connect(server) as session, connect(server) as other:
            for one in (session, other):
                await use(one, mcp("local"))
            events = await ask(session, "call local__process {}")
            process = int(items(events, "mcp_call")[0].output)
            events = await ask(other, "call local__process {}")
            assert int(items(events, "mcp_call")[0].output) == process
            events = await ask(session, "call local__fail {}")
            assert "out of luck" in items(events, "mcp_call")[0].error.message
            os.kill(process, signal.SIGKILL)
            deadline = time.monotonic() + HANG_GUARD
            while True:
                events = await ask(session, "call local__process {}")
                call = items(events, "mcp_call")[0]
                if call.output:
                    break
                assert call.error.type == "protocol_error" and time.monotonic() < deadline
                time.sleep(0.2)
            assert int(call.output) != process
            # The ended process is reaped.
            await_end(process)

    run(test())


def test_what_cannot_be_reached_is_told_and_the_session_lives_on(server):
    async def test():
        async with connect(server) as session:
            for tool in (
                mcp(server_url=f"http://127.0.0.1:{free_port()}/mcp"), mcp("missing"),
            ):
                await session.update(output_modalities=["text"], tools=[tool])
                await session.until("mcp_list_tools.failed")
                error = (await session.until("error")).error
                assert error.code == "mcp_list_tools_failed"
            await session.connection.session.update(
                session={"type": "realtime", "tools": [mcp("unknown")]})
            assert (await session.until("error")).error.code == "mcp_server_not_found"
            events = await ask(session, "hello", 1)
            assert said(events) == "You said: hello"

    run(test())


def test_a_configured_server_is_followed_on_its_origin_and_its_failures_are_logged(
        model, tools, tmp_path):
    """The library answers `/mcp/` with 307 to `/mcp`."""
    configuration = tmp_path / "servers.json"
    configuration.write_text(json.dumps({"mcpServers": {
        "moved": {"url": tools + "/"}, "lost": {"url": tools.replace("/mcp", "/nowhere?key=secret")},
    }}))

    async def test(parley):
        async with connect(parley) as session:
            await use(session, mcp("moved"))
            for _ in range(30):
                await session.update(tools=[mcp("lost")])
                await session.until("mcp_list_tools.failed")
                await session.until("error")
                await session.update(tools=[])

    with ParleyServer("--llm", model.url, "--mcp-config", str(configuration)) as parley:
        begun = time.monotonic()
        run(test(parley))
        minutes = (time.monotonic() - begun) / 60
        assert parley.metric('parley_service_failures_total{service="mcp/lost"}') == "30"
        log = parley.log_path.read_text(encoding="utf-8")
    assert f"redirected to {tools}" in log and "secret" not in log
    failed = [line for line in log.splitlines() if "service failed" in line]
    # A line of equal failures, and one more for each minute.
    assert 1 <= len(failed) <= 1 + minutes
    assert "service=mcp/lost" in failed[0] and "status=404" in failed[0]
    assert "/nowhere" in failed[0]


def test_a_server_that_was_restarted_is_greeted_anew(server):
    async def test():
        port = free_port()
        async with connect(server) as session:
            with http_server(port) as url:
                await use(session, mcp(server_url=url))
            with http_server(port):
                events = await ask(session, 'call tools__add {"a":5,"b":6}')
                assert items(events, "mcp_call")[0].output == "11"

    run(test())


@pytest.mark.parametrize("setting,code", [
    ("off", "mcp_server_url_not_allowed"), ("public", "mcp_list_tools_failed"),
])
def test_the_operator_says_which_urls_clients_may_name(model, tools, setting, code):
    async def test(parley):
        async with connect(parley) as session:
            await session.connection.session.update(
                session={"type": "realtime", "tools": [mcp(server_url=tools)]})
            assert (await session.until("error")).error.code == code

    with ParleyServer("--llm", model.url, "--mcp-client-urls", setting) as parley:
        run(test(parley))


class Unwelcome:
    """A listener that counts connections and sends nothing."""

    def __init__(self):
        self.socket = socket.create_server(("::", 0), family=socket.AF_INET6,
                                           dualstack_ipv6=True, backlog=64)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def connections(self):
        count = 0
        while True:
            try:
                self.socket.accept()[0].close()
                count += 1
            except BlockingIOError:
                return count


def test_urls_of_clients_reach_no_port_of_the_servers_own_network(model, figure):
    """Open, closed or TLS port: no connection is made, and the client gets the same error."""
    listener = Unwelcome()
    hosts = [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "localhost", "a.localhost",
        "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    ]
    urls = [f"{scheme}://{host}:{listener.port}/mcp" for scheme in ("http", "https")
            for host in hosts]
    closed = [f"http://127.0.0.1:{free_port()}/mcp", "http://10.255.255.1:9/mcp",
              "http://169.254.169.254/latest", "http://[fd00::1]/", "http://[64:ff9b::7f00:1]/"]
    times, told = {}, set()

    async def test(parley):
        async with connect(parley) as session:
            for url in urls + closed:
                begin = time.monotonic()
                await session.connection.session.update(
                    session={"type": "realtime", "tools": [mcp(server_url=url)]})
                error = (await session.until("error")).error
                times[url] = time.monotonic() - begin
                told.add((error.code, error.type, error.param, error.message))

    with ParleyServer("--llm", model.url, "--mcp-client-urls", "public") as parley:
        run(test(parley))
    assert len(told) == 1 and next(iter(told))[0] == "mcp_list_tools_failed", told
    assert listener.connections() == 0
    for name, group in [("open", urls), ("closed or elsewhere", closed)]:
        spent = sorted(times[url] * 1e3 for url in group)
        figure(f"refused MCP URL, {name}: {spent[0]:.1f}-{spent[-1]:.1f} ms")


def test_the_programs_end_with_the_server(model, tmp_path):
    configuration = tmp_path / "servers.json"
    configuration.write_text(json.dumps({
        "mcpServers": {"local": {"command": TOOLS[0], "args": TOOLS[1:]}}
    }))

    async def test(parley):
        async with connect(parley) as session:
            await use(session, mcp("local"))
            events = await ask(session, "call local__process {}")
            return int(items(events, "mcp_call")[0].output)

    processes = []
    with ParleyServer("--llm", model.url, "--mcp-config", str(configuration)) as parley:
        async def note():
            processes.append(await test(parley))

        run(note())
    assert processes
    await_end(processes[0])
