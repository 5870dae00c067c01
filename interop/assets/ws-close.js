'use strict';
// ws-close URL CODE REASON: connects, sends one message, closes with the code.
const { WebSocket } = require('ws');
const [url, code, reason] = process.argv.slice(2);
const ws = new WebSocket(url);
ws.on('open', () => ws.send('hello'));
ws.on('message', () => ws.close(Number(code), reason));
ws.on('unexpected-response', (req, res) => {
  let body = '';
  res.on('data', (d) => { body += d; });
  res.on('end', () => { console.log(`refused ${res.statusCode} ${res.headers['x-from'] || ''} ${body.trim()}`); process.exit(0); });
});
ws.on('error', (e) => { console.error(e.message); process.exit(1); });
ws.on('close', (c, r) => console.log(`closed ${c} ${r}`));
