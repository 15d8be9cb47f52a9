"""An adapter of voicebench for the Realtime protocol: linear samples at the bench's own rate, replies as
binary messages."""

import json

from voicebench.adapters.base import AgentClear, Transcript
from voicebench.adapters.websocket import WebSocketAdapter

# Before the samples of a binary message (PROTOCOL.md).
HEADER_BYTES = 24


class RealtimeAdapter(WebSocketAdapter):
    name = "realtime"

    async def connect(self):
        await super().connect()
        samples = {"type": "audio/pcm", "rate": self.session.sample_rate}
        await self._ws.send(json.dumps({"type": "session.update", "session": {
            "type": "realtime", "audio": {
                "input": {"format": samples, "transcription": {"model": "default"}},
                "output": {"format": samples, "transport": "binary"}}}}))

    def handle_binary(self, message, now, src_rate):
        super().handle_binary(message[HEADER_BYTES:], now, src_rate)

    def handle_text(self, message, now):
        event = json.loads(message)
        match event["type"]:
            # A client drops what it has not played when its user speaks.
            case "input_audio_buffer.speech_started":
                self.emit(AgentClear(now))
            case "conversation.item.input_audio_transcription.completed":
                self.emit(Transcript("user", event["transcript"], now))
