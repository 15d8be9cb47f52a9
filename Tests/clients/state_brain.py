"""An agent behind Open Responses that keeps its conversations: FastAPI, with the openai SDK's types.

The last user message decides the answer. `recite` says what the agent knows of the conversation.
`order` says a commentary, waits, and says the answer. `story` is long and slow. `weather` calls the
client's function. `forget` loses everything afterwards. Any other message is repeated. Requests that
the SDK's types do not allow are refused, and so is an id that is unknown."""

import asyncio
import itertools
import json
import re

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from openai.types import responses as types
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

app = FastAPI()
BODY = TypeAdapter(ResponseCreateParamsStreaming)
SENTENCES = [f"This is sentence number {number} of the story. " for number in range(1, 2001)]
numbers = itertools.count(1)
stored = {}


def refusal(message, parameter, code):
    error = {"type": "invalid_request_error", "message": message, "param": parameter, "code": code}
    return JSONResponse({"error": error}, 400)


@app.post("/v1/responses")
async def respond(request: Request):
    """Streams an answer to a conversation of which the agent keeps what was before."""
    body = await request.json()
    BODY.validate_python(body)
    previous = body.get("previous_response_id")
    if previous is not None and previous not in stored:
        return refusal(
            f"Previous response with id '{previous}' not found.", "previous_response_id",
            "previous_response_not_found")
    if not body["store"]:
        return refusal("This agent keeps its conversations.", "store", "invalid_value")
    context = stored.get(previous, []) + body["input"]
    answer = Answer(f"resp_{next(numbers)}", body["model"], context)
    return StreamingResponse(answer.events(body), media_type="text/event-stream")


class Answer:
    """One answer; it is kept once it is complete."""

    def __init__(self, identifier, model, context):
        self.identifier, self.model, self.context = identifier, model, context
        self.sequence = itertools.count()
        self.output = []

    def event(self, kind, **fields):
        """An event of the SDK's type as bytes of a stream."""
        event = kind(sequence_number=next(self.sequence), **fields)
        return f"data: {event.model_dump_json()}\n\n"

    def response(self, status):
        return types.Response(
            id=self.identifier, created_at=1, model=self.model, object="response", status=status,
            output=self.output, parallel_tool_calls=True, tool_choice="auto", tools=[])

    def ended(self, item, place):
        self.output.append(item)
        return self.event(
            types.ResponseOutputItemDoneEvent, type="response.output_item.done",
            output_index=place, item=item)

    async def says(self, pieces, phase="final_answer", pause=0):
        place, said = len(self.output), ""
        item = {
            "id": f"msg_{next(numbers)}", "type": "message", "role": "assistant", "content": [],
            "phase": phase,
        }
        yield self.event(
            types.ResponseOutputItemAddedEvent, type="response.output_item.added",
            output_index=place,
            item=types.ResponseOutputMessage(**item, status="in_progress"))
        for piece in pieces:
            said += piece
            yield self.event(
                types.ResponseTextDeltaEvent, type="response.output_text.delta", delta=piece,
                content_index=0, item_id=item["id"], output_index=place, logprobs=[])
            await asyncio.sleep(pause)
        item["content"] = [{"type": "output_text", "text": said, "annotations": []}]
        yield self.ended(types.ResponseOutputMessage(**item, status="completed"), place)

    def calls(self, name, arguments):
        call = types.ResponseFunctionToolCall(
            type="function_call", id=f"fc_{next(numbers)}", call_id=f"call_{next(numbers)}",
            name=name, arguments=json.dumps(arguments), status="completed")
        place = len(self.output)
        yield self.event(
            types.ResponseOutputItemAddedEvent, type="response.output_item.added",
            output_index=place, item=call.model_copy(update={"arguments": ""}))
        yield self.event(
            types.ResponseFunctionCallArgumentsDoneEvent, item_id=call.id, output_index=place,
            type="response.function_call_arguments.done", name=name, arguments=call.arguments)
        yield self.ended(call, place)

    async def events(self, body):
        yield self.event(
            types.ResponseCreatedEvent, type="response.created",
            response=self.response("in_progress"))
        async for event in self.answer(body):
            yield event
        stored[self.identifier] = self.context + [
            item.model_dump(exclude_none=True) for item in self.output]
        if "forget" in words(self.context[-1]):
            stored.clear()
        yield self.event(
            types.ResponseCompletedEvent, type="response.completed",
            response=self.response("completed"))

    async def answer(self, body):
        last = self.context[-1]
        text = words(last)
        if last["type"] == "function_call_output":
            answer = self.says(["I found: ", last["output"]])
        elif "recite" in text:
            answer = self.says([" | ".join(known(item) for item in self.context)])
        elif order := re.search(r"order (\d+)", text):
            async for event in self.says(["One ", "moment."], "commentary"):
                yield event
            await asyncio.sleep(0.2)
            answer = self.says([f"Order {order.group(1)} ships on Friday."])
        elif "story" in text:
            answer = self.says(SENTENCES, pause=0.01)
        elif "tale" in text:
            answer = self.says(SENTENCES[:10])
        elif "weather" in text and body.get("tools"):
            for event in self.calls("get_weather", {"city": "Oslo"}):
                yield event
            return
        else:
            answer = self.says(["You said: ", text])
        async for event in answer:
            yield event


def words(item):
    """The text of a message."""
    content = item.get("content", "")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def known(item):
    """An item of the conversation in short."""
    if item["type"] == "message":
        return f"{item['role']}: {words(item)}"
    return item["type"]
