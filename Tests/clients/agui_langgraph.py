"""A LangGraph agent behind ag-ui-langgraph, which answers by rules. It differs from Pydantic AI: it
keeps the conversation itself, and finds the client's messages in it by their ids.

At `/` interrupts come as ag-ui-langgraph sends them by default, as a custom event without an id; at
`/outcome` as AG-UI 1.0 has them."""

import re

from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt


@tool
def look_up_order(number: int) -> str:
    """Says when an order ships."""
    return f"Order {number} ships on Friday."


class Rules(BaseChatModel):
    """A chat model that streams."""

    @property
    def _llm_type(self):
        return "rules"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("not streamed"))])

    async def _astream(self, messages, stop=None, run_manager=None, **options):
        for piece in answer(messages):
            yield ChatGenerationChunk(message=piece)


def call(name, arguments):
    """A call in two pieces."""
    first = {"name": name, "args": "", "id": f"call_{name}", "index": 0}
    return [
        AIMessageChunk(content="", tool_call_chunks=[first]),
        AIMessageChunk(
            content="",
            tool_call_chunks=[{"name": None, "args": arguments, "id": None, "index": 0}]),
    ]


def answer(messages):
    """The pieces of an answer."""
    last = messages[-1]
    text = str(last.content)
    if last.type == "tool":
        return [AIMessageChunk(content=f"I found: {text}")]
    if order := re.search(r"order (\d+)", text):
        return [
            AIMessageChunk(content="One moment. "),
            *call("look_up_order", f'{{"number": {order.group(1)}}}'),
        ]
    if "weather" in text:
        return call("get_weather", '{"city": "Oslo"}')
    if "fail" in text:
        raise RuntimeError("the model is broken")
    if "list" in text:
        known = " ".join(message.type for message in messages)
        return [AIMessageChunk(content="I know: "), AIMessageChunk(content=known)]
    return [AIMessageChunk(content="You said: "), AIMessageChunk(content=text)]


async def chat(state):
    """Answers, or asks before it goes on."""
    text = str(state["messages"][-1].content)
    if text == "quiet":
        return {"messages": [AIMessage("Not streamed.")]}
    if text == "buy":
        return {"messages": [AIMessage(f"You answered: {interrupt('Which color?')}")]}
    return {"messages": [await Rules().ainvoke(state["messages"])]}


def is_own_call(state):
    """Whether the agent runs the tool itself."""
    calls = getattr(state["messages"][-1], "tool_calls", None) or []
    return "tools" if any(each["name"] == look_up_order.name for each in calls) else END


def build_graph():
    """chat ⇄ tools."""
    graph = StateGraph(MessagesState)
    graph.add_node("chat", chat)
    graph.add_node("tools", ToolNode([look_up_order]))
    graph.add_edge(START, "chat")
    graph.add_conditional_edges("chat", is_own_call)
    graph.add_edge("tools", "chat")
    return graph.compile(checkpointer=InMemorySaver())


app = FastAPI()
add_langgraph_fastapi_endpoint(app, LangGraphAgent(name="rules", graph=build_graph()), "/")
add_langgraph_fastapi_endpoint(
    app, LangGraphAgent(name="outcome", graph=build_graph(), emit_interrupt_outcome=True), "/outcome"
)
