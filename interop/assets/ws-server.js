'use strict';
// An echo that says on stdout at which port it listens. The text message
// "close CODE REASON" makes it close; GET /closed tells how clients closed. Paths with
// half-up and half-down speak no WebSocket behind the handshake: they take or send bytes
// until that direction ends, and then the other one, whose end comes later.
const crypto = require('node:crypto');
const http = require('node:http');
const { WebSocketServer } = require('ws');

const closed = [];
const server = http.createServer((req, res) => res.end(JSON.stringify(req.url.includes('halves') ? halves : closed)));
const echo = {
  plain: new WebSocketServer({ noServer: true, maxPayload: 2 << 20, handleProtocols: (offered) => (offered.has('echo.v1') ? 'echo.v1' : false) }),
  big: new WebSocketServer({ noServer: true, maxPayload: 64 << 20 }),
  deflate: new WebSocketServer({ noServer: true, maxPayload: 2 << 20, perMessageDeflate: { threshold: 0 } }),
};

// switched answers a handshake by hand.
function switched(req, socket) {
  const accept = crypto.createHash('sha1').update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
}

// half takes all bytes that come. Upwards it answers behind their end with as many, and
// ends; downwards it sends bytes and ends, and tells at /halves what came later.
const halves = [];
function half(req, socket, head) {
  const down = req.url.includes('half-down');
  const sum = crypto.createHash('sha256');
  let bytes = 0;
  const take = (d) => { bytes += d.length; sum.update(d); };
  switched(req, socket);
  take(head);
  socket.on('error', (e) => halves.push({ error: e.message }));
  socket.on('data', take);
  socket.on('end', () => {
    halves.push({ bytes, sum: sum.digest('hex') });
    if (!down) socket.end(Buffer.alloc(bytes, 'u'));
  });
  if (down) socket.end(Buffer.alloc(8 << 20, 'd'));
}

server.on('upgrade', (req, socket, head) => {
  if (req.url.includes('half-')) {
    half(req, socket, head);
    return;
  }
  if (req.url.includes('refuse')) {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\nX-From: ws-server\r\n\r\nno\n');
    return;
  }
  const s = req.url.includes('deflate') ? echo.deflate : req.url.includes('big') ? echo.big : echo.plain;
  s.handleUpgrade(req, socket, head, (ws) => {
    let pongs = 0;
    let messages = 0;
    ws.on('pong', (data) => { if (data.toString() === `ping of server`) pongs++; });
    ws.on('close', (code, reason) => closed.push({ url: req.url, code, reason: reason.toString() }));
    ws.on('error', (e) => console.error('server side:', e.message));
    ws.on('message', (data, binary) => {
      if (++messages % 50 === 0) ws.ping('ping of server');
      const text = binary ? '' : data.toString('utf8', 0, 64);
      if (text === 'pongs') { ws.send(`pongs ${pongs} of ${Math.floor(messages / 50)}`); return; }
      const m = /^close (\d+) (.*)$/.exec(text);
      if (m) ws.close(Number(m[1]), m[2]);
      else ws.send(data, { binary });
    });
  });
});
server.listen(0, '127.0.0.1', () => console.log(`port ${server.address().port}`));
