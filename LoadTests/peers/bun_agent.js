// An agent session server on Bun, written as its documentation recommends: Bun.serve with
// `websocket` handlers and per-connection data, the model through fetch, replies over SSE as a
// ReadableStream. One process, one thread of JavaScript. fetch allows 256 requests in flight by
// default, so BUN_CONFIG_MAX_HTTP_REQUESTS must be set.
//
// Serves the part of the Realtime protocol that the claims need, /echo, the same model over SSE at
// POST /v1/chat/completions, and a hello at every other path.
//
// BUN_CONFIG_MAX_HTTP_REQUESTS=20000 bun bun_agent.js PORT MODEL_URL
const [port, modelURL] = process.argv.slice(2);

// A CPU-heavy tool: "burn=500" in a user's text computes for 500 milliseconds.
function callTool(text) {
  const call = /\bburn=(\d+)/.exec(text);
  const end = performance.now() + Number(call?.[1] ?? 0);
  let primes = 0;
  for (let n = 2; performance.now() < end; n++) {
    let d = 2;
    while (d * d <= n && n % d) d++;
    if (d * d > n) primes++;
  }
  return primes;
}

async function* modelDeltas(messages, signal) {
  const answer = await fetch(modelURL, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: 'scripted', stream: true, messages }),
    signal,
  });
  if (!answer.ok) throw new Error(`the model answered ${answer.status}`);
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of answer.body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ')) continue;
      const data = line.slice(6).trimEnd();
      if (data === '[DONE]') return;
      const delta = JSON.parse(data).choices[0]?.delta?.content;
      if (delta) yield delta;
    }
  }
}

class Session {
  constructor(socket, model) {
    this.socket = socket;
    this.messages = [];
    this.settings = {
      id: `sess_${crypto.randomUUID()}`, object: 'realtime.session', type: 'realtime', model,
    };
    this.send('session.created', { session: this.settings });
  }

  send(type, fields) {
    this.socket.send(JSON.stringify({ type, event_id: `event_${crypto.randomUUID()}`, ...fields }));
  }

  handle(event) {
    switch (event.type) {
      case 'session.update':
        Object.assign(this.settings, event.session);
        return this.send('session.updated', { session: this.settings });
      case 'conversation.item.create': {
        const item = { id: `item_${crypto.randomUUID()}`, object: 'realtime.item', ...event.item };
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
    const response = { id: `resp_${crypto.randomUUID()}`, object: 'realtime.response', output: [] };
    const place = {
      response_id: response.id, item_id: `item_${crypto.randomUUID()}`,
      output_index: 0, content_index: 0,
    };
    this.send('response.created', { response: { ...response, status: 'in_progress' } });
    let text = '';
    let status = 'completed';
    try {
      callTool(this.messages.at(-1)?.content ?? '');
      for await (const delta of modelDeltas(this.messages, signal)) {
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

async function streamCompletion(request) {
  const { model, messages } = await request.json();
  const id = `chatcmpl-${crypto.randomUUID()}`;
  async function* events() {
    for await (const content of modelDeltas(messages, request.signal)) {
      const choices = [{ index: 0, delta: { content }, finish_reason: null }];
      yield `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', model, choices })}\n\n`;
    }
    yield 'data: [DONE]\n\n';
  }
  return new Response(events, { headers: { 'Content-Type': 'text/event-stream' } });
}

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(port),
  fetch(request, server) {
    const { pathname, searchParams } = new URL(request.url);
    if (request.method === 'POST' && pathname === '/v1/chat/completions') {
      // A stream may be silent for longer than the 10 s after which Bun ends a quiet request.
      server.timeout(request, 0);
      return streamCompletion(request);
    }
    const data = { echoes: pathname === '/echo', model: searchParams.get('model') };
    if (server.upgrade(request, { data })) return;
    return Response.json({ hello: 'world' });
  },
  websocket: {
    open(socket) {
      if (!socket.data.echoes) socket.data.session = new Session(socket, socket.data.model);
    },
    message(socket, message) {
      if (socket.data.echoes) socket.send(message);
      else socket.data.session.handle(JSON.parse(message));
    },
    close(socket) {
      socket.data.session?.abort?.abort();
    },
  },
});
