'use strict';
// ws-h2 HOST:PORT CA-FILE: WebSockets by extended CONNECT (RFC 8441) with Node's HTTP/2
// client, all on one connection: messages of up to 16 MiB there and back, twenty tunnels
// at once, and streams whose directions end one after the other. Prints a line of JSON,
// or ends with status 1.
const crypto = require('node:crypto');
const fs = require('node:fs');
const http2 = require('node:http2');

const [address, ca] = process.argv.slice(2);
const session = http2.connect(`https://${address}`, { ca: fs.readFileSync(ca), settings: { initialWindowSize: 1 << 20 } });
session.on('error', (e) => fail(e.message));
setTimeout(() => fail('no end after 120 s'), 120000).unref();

function fail(why) {
  console.error(why);
  process.exit(1);
}

function check(good, why) {
  if (!good) fail(why);
}

// tunnel opens one; the stream it gives has had its 200.
function tunnel(path) {
  return new Promise((resolve) => {
    const s = session.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':path': path, 'sec-websocket-version': '13' });
    s.on('error', (e) => fail(`${path}: ${e.message}`));
    s.on('response', (h) => {
      check(h[':status'] === 200, `${path}: status ${h[':status']}`);
      check(h['sec-websocket-accept'] === undefined && h.connection === undefined && h.upgrade === undefined, `${path}: fields of HTTP/1.1`);
      resolve(s);
    });
  });
}

// frame is a whole message of a client.
function frame(opcode, data) {
  const n = data.length;
  const head = Buffer.alloc(n < 126 ? 6 : n < 65536 ? 8 : 14);
  head[0] = 0x80 | opcode;
  if (n < 126) head[1] = 0x80 | n;
  else if (n < 65536) { head[1] = 0x80 | 126; head.writeUInt16BE(n, 2); }
  else { head[1] = 0x80 | 127; head.writeBigUInt64BE(BigInt(n), 2); }
  const key = crypto.randomBytes(4);
  key.copy(head, head.length - 4);
  const masked = Buffer.from(data);
  for (let i = 0; i < n; i++) masked[i] ^= key[i & 3];
  return Buffer.concat([head, masked]);
}

// reader gives the messages of a tunnel one after the other; the end of the stream is null.
function reader(s) {
  let chunks = [], have = 0, ended = false, wake = () => {};
  s.on('data', (d) => { chunks.push(d); have += d.length; wake(); });
  s.on('end', () => { ended = true; wake(); });
  async function bytes(n) {
    while (have < n) {
      if (ended) return null;
      await new Promise((resolve) => { wake = resolve; });
    }
    const all = Buffer.concat(chunks);
    chunks = [all.subarray(n)];
    have = all.length - n;
    return all.subarray(0, n);
  }
  return async () => {
    const parts = [];
    let opcode = 0;
    for (;;) {
      const head = await bytes(2);
      if (head === null) return null;
      check((head[1] & 0x80) === 0, 'a masked frame of the server');
      let n = head[1];
      if (n === 126) n = (await bytes(2)).readUInt16BE();
      else if (n === 127) n = Number((await bytes(8)).readBigUInt64BE());
      opcode = head[0] & 15 || opcode;
      parts.push(n > 0 ? await bytes(n) : Buffer.alloc(0));
      if (head[0] & 0x80) return { opcode, data: Buffer.concat(parts) };
    }
  };
}

// messages sends one of each size and has it back; then it closes and both ends end.
async function messages(path, sizes) {
  const s = await tunnel(path);
  const next = reader(s);
  let total = 0;
  for (const n of sizes) {
    const data = crypto.randomBytes(n);
    s.write(frame(2, data));
    const back = await next();
    check(back !== null && back.opcode === 2 && back.data.equals(data), `${path}: a message of ${n} bytes came back otherwise`);
    total += n;
  }
  const code = Buffer.from([4321 >> 8, 4321 & 255]);
  s.write(frame(8, code));
  const close = await next();
  check(close !== null && close.opcode === 8 && close.data.equals(code), `${path}: no close in answer`);
  s.end();
  check(await next() === null, `${path}: bytes behind the close`);
  return total;
}

// all reads a stream to its end.
function all(s) {
  return new Promise((resolve) => {
    const sum = crypto.createHash('sha256');
    let bytes = 0;
    s.on('data', (d) => { bytes += d.length; sum.update(d); });
    s.on('end', () => resolve({ bytes, sum: sum.digest('hex') }));
  });
}

function get(path) {
  return new Promise((resolve) => {
    const s = session.request({ ':path': path });
    let text = '';
    s.setEncoding('utf8');
    s.on('data', (d) => { text += d; });
    s.on('end', () => resolve(text));
    s.end();
  });
}

const hash = (b) => crypto.createHash('sha256').update(b).digest('hex');

// up ends its own direction first: what comes back begins behind that.
async function up() {
  const s = await tunnel('/ws/half-up');
  const data = crypto.randomBytes(8 << 20);
  let early = false;
  const came = all(s);
  s.once('data', () => { early = !s.writableEnded; });
  s.end(data);
  const got = await came;
  check(!early, 'half-up: bytes before the end of ours');
  check(got.bytes === data.length && got.sum === hash(Buffer.alloc(data.length, 'u')), `half-up: ${got.bytes} bytes came back`);
  return hash(data);
}

// down sends when the server has ended already.
async function down() {
  const s = await tunnel('/ws/half-down');
  const got = await all(s);
  check(got.bytes === 8 << 20 && got.sum === hash(Buffer.alloc(8 << 20, 'd')), `half-down: ${got.bytes} bytes`);
  check(!s.destroyed && s.writable, 'half-down: the end of one direction was that of both');
  const data = crypto.randomBytes(8 << 20);
  await new Promise((resolve) => { s.end(data, resolve); });
  return hash(data);
}

session.on('remoteSettings', async (settings) => {
  if (session.seen) return;
  session.seen = true;
  check(settings.enableConnectProtocol === true, 'SETTINGS_ENABLE_CONNECT_PROTOCOL is not 1');
  const sizes = [0, 1, 125, 126, 65535, 65536, 1 << 20, (1 << 20) + 1, 16 << 20];
  let bytes = await messages('/ws/big', sizes);
  const few = [1, 1000, 100000, 1 << 20];
  for (const n of await Promise.all(Array.from({ length: 20 }, (_, i) => messages(`/ctx/socket?${i}`, few)))) bytes += n;
  const sums = [await up(), await down()];
  // The upstream has the last bytes a moment after our stream has taken them.
  for (let tries = 0; ; tries++) {
    const told = JSON.parse(await get('/ctx/halves'));
    const good = sums.every((sum) => told.some((h) => h.sum === sum && h.bytes === 8 << 20));
    if (good && told.length === 2) break;
    check(tries < 200, `the upstream saw ${JSON.stringify(told)}`);
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  console.log(JSON.stringify({ tunnels: 23, bytes }));
  session.close();
});
