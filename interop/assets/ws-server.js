'use strict';
// An echo that says on stdout at which port it listens. The text message
// "close CODE REASON" makes it close; GET /closed tells how clients closed.
const http = require('node:http');
const { WebSocketServer } = require('ws');

const closed = [];
const server = http.createServer((req, res) => res.end(JSON.stringify(closed)));
const echo = {
  plain: new WebSocketServer({ noServer: true, maxPayload: 2 << 20, handleProtocols: (offered) => (offered.has('echo.v1') ? 'echo.v1' : false) }),
  deflate: new WebSocketServer({ noServer: true, maxPayload: 2 << 20, perMessageDeflate: { threshold: 0 } }),
};
server.on('upgrade', (req, socket, head) => {
  if (req.url.includes('refuse')) {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\nX-From: ws-server\r\n\r\nno\n');
    return;
  }
  const s = req.url.includes('deflate') ? echo.deflate : echo.plain;
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
