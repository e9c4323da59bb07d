// The stack Pinboard was first built on: node:http + undici + ioredis, one EVALSHA per request, streaming.
// VARIANT=request: undici.request and body.pipe, as a first version would be; VARIANT=dispatch: raw dispatcher handlers (tuned).
// PORT and REDIS_PORT; AUTOPIPE=1 turns on automatic pipelining; CONNS bounds upstream connections.
import http from 'node:http';
import fs from 'node:fs';
import { Agent, request } from 'undici';
import Redis from 'ioredis';

const variant = process.env.VARIANT || 'request';
const Client = Redis.default || Redis;
const redis = new Client({ host: '127.0.0.1', port: +process.env.REDIS_PORT, enableAutoPipelining: process.env.AUTOPIPE === '1' });
const sha = await redis.script('LOAD', fs.readFileSync(new URL('./resolve.lua', import.meta.url), 'utf8'));
const agent = new Agent({ connections: +(process.env.CONNS || 512), pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
const HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect']);

// split finds the namespace and the id of a request target, null without both.
function split(p) {
  const i = p.indexOf('/', 1);
  if (i < 0) return null;
  let j = i + 1;
  while (j < p.length && p[j] !== '/' && p[j] !== '?') j++;
  return [p.slice(1, i), p.slice(i + 1, j)];
}

async function resolve([ns, id]) {
  const r = await redis.evalsha(sha, 1, `p:{0}:/${ns}:${id}`);
  return r[0] === 3 ? { url: r[1], epoch: r[2] } : null;
}

function strip(h) {
  delete h['connection'];
  delete h['keep-alive'];
  delete h['transfer-encoding'];
  return h;
}

async function forwardRequest(req, res, owner, headers, body) {
  try {
    const up = await request(owner.url + req.url, { method: req.method, headers, body, dispatcher: agent });
    res.writeHead(up.statusCode, strip(up.headers));
    up.body.on('error', () => res.destroy());
    up.body.pipe(res);
  } catch {
    if (!res.headersSent) res.writeHead(502);
    res.end();
  }
}

function forwardDispatch(req, res, owner, headers, body) {
  agent.dispatch({ origin: owner.url, path: req.url, method: req.method, headers, body }, {
    onRequestStart() {},
    onRequestUpgrade() {},
    onResponseStart(c, status, h) { res.writeHead(status, strip(h)); },
    onResponseData(c, chunk) { if (!res.write(chunk)) { c.pause(); res.once('drain', () => c.resume()); } },
    onResponseEnd() { res.end(); },
    onResponseError() { if (!res.headersSent) res.writeHead(502); res.end(); },
  });
}

const server = http.createServer(async (req, res) => {
  const address = split(req.url);
  if (!address) { res.writeHead(404); return res.end(); }
  let owner;
  try { owner = await resolve(address); } catch { owner = null; }
  if (!owner) { res.writeHead(503); return res.end(); }
  const headers = {};
  for (const k in req.headers) if (!HOP.has(k)) headers[k] = req.headers[k];
  headers['x-forwarded-for'] = req.socket.remoteAddress;
  headers['pinboard-epoch'] = owner.epoch;
  const hasBody = req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined;
  const forward = variant === 'request' ? forwardRequest : forwardDispatch;
  forward(req, res, owner, headers, hasBody ? req : null);
});
server.keepAliveTimeout = 65000;

server.on('upgrade', async (req, socket) => {
  const owner = await resolve(split(req.url));
  const u = new URL(owner.url);
  const r = http.request({ host: u.hostname, port: u.port, path: req.url, headers: req.headers, agent: false });
  r.on('upgrade', (answer, upstream, head) => {
    let s = 'HTTP/1.1 101 Switching Protocols\r\n';
    for (let k = 0; k < answer.rawHeaders.length; k += 2) s += `${answer.rawHeaders[k]}: ${answer.rawHeaders[k + 1]}\r\n`;
    socket.write(s + '\r\n');
    if (head.length) socket.write(head);
    upstream.pipe(socket);
    socket.pipe(upstream);
    upstream.on('error', () => socket.destroy());
    socket.on('error', () => upstream.destroy());
  });
  r.on('error', () => socket.destroy());
  r.end();
});
server.listen(+process.env.PORT, '127.0.0.1', 4096);
