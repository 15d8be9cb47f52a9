# The WebSocket of FastAPI's documentation, for bytes, under uvicorn with its standard extras.
# python fastapi_echo.py PORT
import sys

import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

app = FastAPI()


@app.websocket("/")
async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.send_bytes(await websocket.receive_bytes())
    except WebSocketDisconnect:
        pass


# Work that the other peers do not do is switched off: a log line per connection, compression, and
# pings every 20 s, which would disturb the measurement of the others.
uvicorn.run(
    app,
    host="127.0.0.1",
    port=int(sys.argv[1]),
    access_log=False,
    log_level="warning",
    ws_per_message_deflate=False,
    ws_ping_interval=None,
    backlog=4096,
)
