// The echo of the README of ws (Debian's package); permessage-deflate is off, which is its default.
// node node_ws_echo.cjs PORT
const { WebSocketServer } = require('ws');

const server = new WebSocketServer({ host: '127.0.0.1', port: Number(process.argv[2]) });

server.on('connection', (socket) => {
  socket.on('error', console.error);
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
});
