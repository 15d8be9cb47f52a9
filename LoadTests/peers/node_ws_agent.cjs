// An agent session server on Node: the `ws` package as in its README (a WebSocketServer beside an
// http server), the model through the built-in fetch (undici), as in the openai package. One
// process, one thread of JavaScript; users run one such process per core.
//
// Serves the part of the Realtime protocol that the claims need and /echo; node_http_agent.cjs has
// what is served over HTTP.
//
// NODE_PATH=/usr/share/nodejs node node_ws_agent.cjs PORT MODEL_URL
const { randomUUID } = require('node:crypto');
const { Worker } = require('node:worker_threads');
const { WebSocketServer } = require('ws');
const { createServer, modelDeltas } = require('./node_http_agent.cjs');

const [port, modelURL] = process.argv.slice(2);

// A CPU-heavy tool: computes for the given milliseconds.
const burn = (milliseconds) => {
  const end = performance.now() + milliseconds;
  let primes = 0;
  for (let n = 2; performance.now() < end; n++) {
    let d = 2;
    while (d * d <= n && n % d) d++;
    if (d * d > n) primes++;
  }
  return primes;
};

// "burn=500" in a user's text calls that tool in the session's thread, "burn=500 aside" in a thread
// of its own, as Node's documentation recommends.
async function callTool(text) {
  const call = /\bburn=(\d+)( aside)?/.exec(text);
  if (!call) return;
  if (!call[2]) return burn(Number(call[1]));
  const source = `require('node:worker_threads').parentPort.postMessage((${burn})(${call[1]}))`;
  await new Promise((resolve, reject) => {
    new Worker(source, { eval: true }).on('message', resolve).on('error', reject);
  });
}

class Session {
  constructor(socket, model) {
    this.socket = socket;
    this.messages = [];
    this.settings = {
      id: `sess_${randomUUID()}`, object: 'realtime.session', type: 'realtime', model,
    };
    this.send('session.created', { session: this.settings });
  }

  send(type, fields) {
    this.socket.send(JSON.stringify({ type, event_id: `event_${randomUUID()}`, ...fields }));
  }

  handle(event) {
    switch (event.type) {
      case 'session.update':
        Object.assign(this.settings, event.session);
        return this.send('session.updated', { session: this.settings });
      case 'conversation.item.create': {
        const item = { id: `item_${randomUUID()}`, object: 'realtime.item', ...event.item };
        const text = item.content.map((part) => part.text ?? '').join('');
        this.messages.push({ role: item.role, content: text });
        this.send('conversation.item.added', { item });
        return this.send('conversation.item.done', { item });
      }
      case 'response.create':
        if (this.abort) return this.fail('a response is in progress');
        return this.respond();
      default:
        return this.fail(`unknown event type ${event.type}`);
    }
  }

  fail(message) {
    this.send('error', { error: { type: 'invalid_request_error', message } });
  }

  async respond() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    const response = { id: `resp_${randomUUID()}`, object: 'realtime.response', output: [] };
    const place = {
      response_id: response.id, item_id: `item_${randomUUID()}`, output_index: 0, content_index: 0,
    };
    this.send('response.created', { response: { ...response, status: 'in_progress' } });
    let text = '';
    let status = 'completed';
    try {
      await callTool(this.messages.at(-1)?.content ?? '');
      for await (const delta of modelDeltas(modelURL, this.messages, signal)) {
        text += delta;
        this.send('response.output_text.delta', { ...place, delta });
      }
    } catch (error) {
      if (signal.aborted) return;
      console.error(error.message);
      status = 'failed';
    }
    this.abort = undefined;
    this.messages.push({ role: 'assistant', content: text });
    this.send('response.output_text.done', { ...place, text });
    response.output.push({
      id: place.item_id, type: 'message', role: 'assistant',
      content: [{ type: 'output_text', text }],
    });
    this.send('response.done', { response: { ...response, status } });
  }
}

const server = createServer(modelURL);

const sockets = new WebSocketServer({ server });

sockets.on('connection', (socket, request) => {
  const url = new URL(request.url, 'ws://localhost');
  socket.on('error', console.error);
  if (url.pathname === '/echo') {
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
    return;
  }
  const session = new Session(socket, url.searchParams.get('model'));
  socket.on('message', (data) => session.handle(JSON.parse(data)));
  socket.on('close', () => session.abort?.abort());
});

server.listen({ port: Number(port), host: '127.0.0.1', backlog: 65535 });
