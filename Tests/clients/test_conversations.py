"""The conversations of Tests/Fixtures in real time: the server's binary over real sockets, with its
embedded recogniser and voice, and a scripted model. All of them run once, several in parallel. The
checks do not depend on the speed of the machine; the delays of events are printed."""

import asyncio
import contextlib
import statistics

import pytest
from conversation import Conversation, names
from conversation_judge import Judge
from parley_server import ParleyServer
from scripted_mind import ScriptedMind

pytestmark = pytest.mark.busy

# A session that gets no audio for so long forgets the sound before it, and finds the beginning of a word later.
PATIENT = ["--codec-idle-seconds", "3600"]

# Seconds between the starts of two conversations. Most begin with the same words, and would
# otherwise all request their transcript at once.
STAGGER = 0.3

# Maximum conversations in parallel. Their client is one process, which mixes all their sounds; with
# 16 and the server they take two thirds of a core.
AT_ONCE = 16


async def converse(conversations):
    """Runs all conversations; returns for each why it was aborted, or None."""
    groups = {}
    for conversation in conversations:
        options = tuple(sorted(conversation.server_options.items()))
        groups.setdefault(options, []).append(conversation)
    places = asyncio.Semaphore(AT_ONCE)
    async with ScriptedMind() as mind:
        with contextlib.ExitStack() as stack:
            async def run(conversation, server, delay):
                await asyncio.sleep(delay)
                async with places:
                    try:
                        await conversation.run(server.realtime_url + "?model=any")
                    except Exception as failure:  # One failure must not stop the others.
                        return failure
                return None

            runs = []
            for options, group in groups.items():
                arguments = [str(word) for key, value in options for word in (f"--{key}", value)]
                server = stack.enter_context(
                    ParleyServer("--llm", mind.url, "--model", "scripted", *PATIENT, *arguments)
                )
                for conversation in group:
                    mind.expect(conversation)
                    runs.append(run(conversation, server, len(runs) * STAGGER))
            failures = await asyncio.gather(*runs)
    ordered = [conversation.name for group in groups.values() for conversation in group]
    return dict(zip(ordered, failures, strict=True))


@pytest.fixture(scope="module")
def outcomes():
    """Every conversation after its run: the judge's result, or why it was aborted. Takes real time:
    of the speech of each, the longest first."""
    conversations = [
        conversation for name in names() if not (conversation := Conversation(name)).virtual_only
    ]
    conversations.sort(key=lambda conversation: -conversation.until)
    failures = asyncio.run(converse(conversations))
    return {c.name: failures[c.name] or Judge(c) for c in conversations}


@pytest.mark.parametrize("name", names())
def test_what_happens_in_real_time_is_what_the_file_expects(outcomes, name):
    if name not in outcomes:
        pytest.skip(Conversation(name).virtual_only)
    if isinstance(outcomes[name], Exception):
        raise outcomes[name]
    assert not outcomes[name].problems, "\n".join(outcomes[name].problems)


def test_the_figures(outcomes, figure):
    judges = [judge for judge in outcomes.values() if isinstance(judge, Judge)]
    late = {}
    for judge in judges:
        for kind, values in judge.late.items():
            late.setdefault(kind, []).extend(values)
    for kind, values in sorted(late.items()):
        figure(
            f"{kind}: {len(values)}, median {statistics.median(values):.0f} ms, "
            f"{min(values):.0f}…{max(values):.0f} ms from the file"
        )
    lags = [late for judge in judges for late in judge.conversation.lags]
    middle, worst = statistics.median(lags), max(lags)
    figure(f"lag of pings and packets: median {middle:.0f} ms, worst {worst:.0f} ms")
