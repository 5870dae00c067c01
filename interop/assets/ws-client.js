'use strict';
// ws-client URL MESSAGES [CA-FILE]: sends messages of 1 B to 1 MiB, text and
// binary, with pings between, and wants each back unchanged and in order; then
// asks for a close code. Prints one line of JSON, or ends with status 1.
const fs = require('node:fs');
const crypto = require('node:crypto');
const { WebSocket } = require('ws');

const [url, count, ca] = [process.argv[2], Number(process.argv[3]), process.argv[4]];
const deflate = url.includes('deflate');
const window = 16; // messages under way at once

function fail(why) {
  console.error(why);
  process.exit(1);
}

// size goes from 1 B to 1 MiB in equal ratios, mixed so that neighbours differ.
function size(i) {
  const step = (i * 7919) % count;
  return Math.round(2 ** (20 * step / Math.max(count - 1, 1)));
}

// message number i: even ones text with two-, three- and four-byte characters.
function message(i) {
  const n = size(i);
  if (i % 2 === 1) return crypto.randomBytes(n);
  const word = `${i} é€𝄞 `;
  let text = word.repeat(Math.ceil(n / Buffer.byteLength(word))).slice(0, n);
  while (Buffer.byteLength(text) > n) text = text.slice(0, -Math.max(1, Math.floor((Buffer.byteLength(text) - n) / 4)));
  if (/[\ud800-\udbff]$/.test(text)) text = text.slice(0, -1);
  return text.padEnd(n - Buffer.byteLength(text) + text.length, '.');
}

const ws = new WebSocket(url, deflate ? [] : ['other', 'echo.v1'], {
  perMessageDeflate: deflate, maxPayload: 2 << 20, ca: ca && fs.readFileSync(ca),
});
const sent = [];
let next = 0, got = 0, bytes = 0, pings = 0, pongs = 0, largest = 0, smallest = Infinity, verdict = '';

function more() {
  while (next < count && next - got < window) {
    const m = message(next);
    sent.push(m);
    ws.send(m);
    if (next % 40 === 0) { ws.ping(`ping ${pings++}`); }
    next++;
  }
}

ws.on('upgrade', (res) => {
  if (!deflate && ws.protocol === '' && res.headers['sec-websocket-protocol'] !== 'echo.v1') fail('the sub-protocol was lost');
  if (deflate && !/permessage-deflate/.test(res.headers['sec-websocket-extensions'] || '')) fail('the extension was lost');
});
ws.on('open', more);
ws.on('pong', (data) => { if (data.toString() !== `ping ${pongs++}`) fail(`pong out of order: ${data}`); });
ws.on('message', (data, binary) => {
  if (got === count) {
    verdict = data.toString();
    ws.send('close 4321 enough of this');
    return;
  }
  const want = sent[got];
  const isText = typeof want === 'string';
  if (binary === isText) fail(`message ${got} changed its kind`);
  const w = isText ? Buffer.from(want) : want;
  if (!data.equals(w)) fail(`message ${got} of ${w.length} bytes came back as ${data.length} other bytes`);
  sent[got++] = null;
  bytes += w.length;
  largest = Math.max(largest, w.length);
  smallest = Math.min(smallest, w.length);
  if (got === count) ws.send('pongs');
  else more();
});
ws.on('unexpected-response', (req, res) => fail(`status ${res.statusCode} ${res.headers['x-httpjet-proxy-error'] || ''}`));
ws.on('error', (e) => fail(e.message));
ws.on('close', (code, reason) => {
  if (got !== count) fail(`closed with ${code} after ${got} of ${count} messages`);
  if (pongs !== pings) fail(`${pongs} pongs for ${pings} pings`);
  if (verdict !== `pongs ${Math.floor((count + 1) / 50)} of ${Math.floor((count + 1) / 50)}`) fail(`pings of the server: ${verdict}`);
  if (code !== 4321 || reason.toString() !== 'enough of this') fail(`close ${code} ${reason}`);
  console.log(JSON.stringify({ messages: got, bytes, smallest, largest, pings }));
});
setTimeout(() => fail(`no progress: ${got} of ${count} messages after 120 s`), 120000).unref();
