"""A Pydantic AI agent behind AG-UI, for Parley's `kind: ag-ui`.

It keeps notes in the shared state, calls a tool of its own, asks before it cancels an order (an
interrupt), leaves the client's tools to the client, and streams. Rules stand in for a model;
`--model openai:gpt-5` uses a real one.

    python agui_brain.py --port 8002
    parley serve --llm http://127.0.0.1:8002/ --llm-kind ag-ui
"""

import argparse
import asyncio
import os
import re

from ag_ui.core import EventType, StateSnapshotEvent
from fastapi import FastAPI, Request
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, RunContext, ToolReturn
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter

from signature import add_options, caller, read_options

STORY = [f"This is sentence number {number} of a long story. " for number in range(1, 2001)]


class Notes(BaseModel):
    """The shared state: Parley keeps it between the turns of a session and sends it back."""

    name: str = ""


async def rules(messages, info):
    """Decides what to say or call, in the place of a model."""
    returns = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if returns:
        yield str(returns[-1].content)
        return
    prompts = [
        part for message in messages if isinstance(message, ModelRequest)
        for part in message.parts if isinstance(part, UserPromptPart)
    ]
    text = str(prompts[-1].content)
    if order := re.search(r"cancel order (\d+)", text, re.IGNORECASE):
        yield {0: DeltaToolCall(name="cancel_order", json_args=f'{{"number": {order.group(1)}}}')}
    elif order := re.search(r"order (\d+)", text):
        yield "One moment. "
        yield {0: DeltaToolCall(name="look_up_order", json_args=f'{{"number": {order.group(1)}}}')}
    elif name := re.search(r"my name is (\w+)", text, re.IGNORECASE):
        yield {0: DeltaToolCall(name="note_name", json_args=f'{{"name": "{name.group(1)}"}}')}
    elif "my name" in text:
        yield {0: DeltaToolCall(name="recall_name", json_args="{}")}
    elif tool := next((t for t in info.function_tools if words(t) & set(text.split())), None):
        yield {0: DeltaToolCall(name=tool.name, json_args="{}")}
    elif "story" in text:
        for sentence in STORY:
            yield sentence
            await asyncio.sleep(0.01)
    else:
        yield "You said: "
        yield text


def words(tool):
    """The words in a tool's name: `get_weather` is for questions with "weather"."""
    return set(tool.name.split("_")) & {"weather"}


agent = Agent(
    os.environ.get("BRAIN_MODEL") or FunctionModel(stream_function=rules),
    deps_type=StateDeps[Notes], output_type=[str, DeferredToolRequests],
)


@agent.tool_plain
def look_up_order(number: int) -> str:
    """Says when an order ships."""
    return f"Order {number} ships on Friday."


@agent.tool
def cancel_order(context: RunContext[StateDeps[Notes]], number: int) -> str:
    """Cancels an order, once the user agrees. `speech` is the question that is spoken."""
    if not context.tool_call_approved:
        raise ApprovalRequired(metadata={"speech": f"Shall I really cancel order {number}?"})
    return f"Order {number} is cancelled."


@agent.tool
def note_name(context: RunContext[StateDeps[Notes]], name: str) -> ToolReturn:
    """Notes the user's name in the shared state."""
    context.deps.state.name = name
    snapshot = StateSnapshotEvent(
        type=EventType.STATE_SNAPSHOT, snapshot=context.deps.state.model_dump()
    )
    return ToolReturn(return_value=f"Nice to meet you, {name}.", metadata=[snapshot])


@agent.tool
def recall_name(context: RunContext[StateDeps[Notes]]) -> str:
    """Says the user's name."""
    name = context.deps.state.name
    return f"Your name is {name}." if name else "I do not know."


app = FastAPI()

@app.post("/")
async def run(request: Request):
    """One run. When Parley closes the connection, because the user interrupts, it is cancelled."""
    caller(request)
    return await AGUIAdapter.dispatch_request(request, agent=agent, deps=StateDeps(Notes()))


if __name__ == "__main__":
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = read_options(parser)
    if options.model:
        agent.model = options.model
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")
