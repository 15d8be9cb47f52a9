// The echo of Bun's documentation (Bun.serve, WebSockets); compression is off, which is its
// default. bun bun_echo.js PORT
Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.argv[2]),
  fetch(request, server) {
    if (server.upgrade(request)) return;
    return new Response('Upgrade failed', { status: 500 });
  },
  websocket: {
    message(socket, message) {
      socket.send(message);
    },
  },
});
