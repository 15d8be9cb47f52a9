// The HTTP part of the agent server on Node, as its documentation of node:http has it, with the model
// through the built-in fetch. One process, one thread of JavaScript. node_ws_agent.cjs uses the same
// functions beside its WebSockets.
//
// Serves the model over SSE at POST /v1/chat/completions, and a hello at every other path.
//
// node node_http_agent.cjs PORT MODEL_URL
const { randomUUID } = require('node:crypto');
const http = require('node:http');

async function* modelDeltas(modelURL, messages, signal) {
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

async function streamCompletion(modelURL, request, response) {
  const abort = new AbortController();
  response.on('close', () => abort.abort());
  try {
    let body = '';
    for await (const text of request.setEncoding('utf8')) body += text;
    const { model, messages } = JSON.parse(body);
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    const id = `chatcmpl-${randomUUID()}`;
    for await (const content of modelDeltas(modelURL, messages, abort.signal)) {
      const choices = [{ index: 0, delta: { content }, finish_reason: null }];
      const chunk = { id, object: 'chat.completion.chunk', model, choices };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  } catch (error) {
    if (!abort.signal.aborted) console.error(error.message);
    response.destroy();
  }
}

function createServer(modelURL) {
  return http.createServer((request, response) => {
    if (request.method === 'POST' && request.url === '/v1/chat/completions') {
      return streamCompletion(modelURL, request, response);
    }
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ hello: 'world' }));
  });
}

module.exports = { createServer, modelDeltas };

if (require.main === module) {
  const [port, modelURL] = process.argv.slice(2);
  // The kernel caps the backlog at net.core.somaxconn.
  createServer(modelURL).listen({ port: Number(port), host: '127.0.0.1', backlog: 65535 });
}
