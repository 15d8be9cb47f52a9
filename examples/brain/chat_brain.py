"""A LangGraph agent behind OpenAI's chat completions, for Parley's `kind: chat`.

It keeps notes for each session, calls a tool of its own, leaves other tools to the client, and
streams. Rules stand in for a model; `--model openai:gpt-5` uses a real one.

    python chat_brain.py --port 8001
    parley serve --llm http://127.0.0.1:8001/v1
"""

import argparse
import asyncio
import json
import os
import re
import uuid

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from langchain_core.messages import AIMessage, convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from signature import add_options, caller, read_options

STORY = [f"This is sentence number {number} of a long story. " for number in range(1, 2001)]


class State(TypedDict, total=False):
    """What the graph keeps for a session: the notes. The conversation comes with each request, cut
    where the user interrupted, so it is replaced."""

    messages: list
    tools: list
    notes: dict
    found: str | None


def look_up_order(number):
    """The agent's own tool: no client sees it."""
    return f"Order {number} ships on Friday."


async def think(state):
    """Decides what to say, from rules."""
    if os.environ.get("BRAIN_MODEL"):
        return await think_with_a_model(state)
    write = get_stream_writer()
    last = state["messages"][-1]
    text = str(last.content)
    notes = dict(state.get("notes") or {})
    if state.get("found"):
        write({"text": state["found"]})
    elif last.type == "tool":
        write({"text": f"Here is what I found: {text}"})
    elif order := re.search(r"order (\d+)", text):
        write({"text": "One moment. "})
        return {"notes": notes, "found": order.group(1)}
    elif name := re.search(r"my name is (\w+)", text, re.IGNORECASE):
        notes["name"] = name.group(1)
        write({"text": f"Nice to meet you, {notes['name']}."})
    elif "my name" in text:
        write({"text": f"Your name is {notes['name']}." if "name" in notes else "I do not know."})
    elif tool := next((t for t in state["tools"] if words(t) & set(text.lower().split())), None):
        write({"call": {"name": tool["function"]["name"], "arguments": {"question": text}}})
    elif "story" in text:
        for sentence in STORY:
            write({"text": sentence})
            await asyncio.sleep(0.01)
    else:
        write({"text": "You said: "})
        write({"text": text})
    return {"notes": notes, "found": None}


def words(tool):
    """The words in a tool's name: `get_weather` is for questions with "weather"."""
    return set(tool["function"]["name"].split("_")) - {"get", "set"}


async def use_tool(state):
    """Runs the agent's own tool."""
    return {"found": look_up_order(state["found"])}


async def think_with_a_model(state):
    """The same with a real model. Needs `pip install langchain langchain-openai`."""
    from langchain.chat_models import init_chat_model

    write = get_stream_writer()
    model = init_chat_model(os.environ["BRAIN_MODEL"])
    if state["tools"]:
        model = model.bind_tools(state["tools"])
    answer = None
    async for piece in model.astream(state["messages"]):
        if piece.text:
            write({"text": piece.text})
        answer = piece if answer is None else answer + piece
    for call in answer.tool_calls if answer else []:
        write({"call": {"id": call["id"], "name": call["name"], "arguments": call["args"]}})
    return {"found": None}


def build_graph():
    """think → use_tool → think, with a memory for each thread."""
    graph = StateGraph(State)
    graph.add_node("think", think)
    graph.add_node("use_tool", use_tool)
    graph.add_edge(START, "think")
    graph.add_conditional_edges(
        "think", lambda state: "use_tool" if state.get("found") else END
    )
    graph.add_edge("use_tool", "think")
    return graph.compile(checkpointer=InMemorySaver())


app = FastAPI()
graph = build_graph()

@app.post("/v1/chat/completions")
async def complete(request: Request):
    """One turn."""
    session = caller(request).session
    body = await request.json()
    return StreamingResponse(chunks(session, body), media_type="text/event-stream")


async def chunks(session, body):
    """The turn as `chat.completion.chunk` events. When Parley closes the connection, because the
    user interrupts, this generator is cancelled, and the graph with it."""
    answer = f"chatcmpl-{uuid.uuid4()}"

    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        data = {"id": answer, "object": "chat.completion.chunk", "choices": [choice]}
        return f"data: {json.dumps(data)}\n\n"

    state = {
        "messages": convert_to_messages(body["messages"]), "tools": body.get("tools") or [],
        "found": None,
    }
    config = {"configurable": {"thread_id": session}}
    calls = 0
    async for piece in graph.astream(state, config, stream_mode="custom"):
        if "text" in piece:
            yield chunk({"content": piece["text"]})
        else:
            call = piece["call"]
            yield chunk({"tool_calls": [{
                "index": calls, "id": call.get("id") or f"call_{uuid.uuid4().hex}",
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }]})
            calls += 1
    yield chunk({}, "tool_calls" if calls else "stop")
    yield "data: [DONE]\n\n"


if __name__ == "__main__":
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = read_options(parser)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")
