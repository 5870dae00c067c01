// A FastCGI application by node-fastcgi: says what arrived, or does what is asked for.
// It listens at descriptor 0. The first process starts it again when it ends.
'use strict';
const { spawn } = require('child_process');
const { createHash } = require('crypto');

if (process.argv[2] !== 'serve') {
  let child;
  const start = () => {
    child = spawn(process.execPath, [__filename, 'serve'], { stdio: 'inherit' });
    child.on('exit', start);
  };
  process.on('SIGTERM', () => { child.removeAllListeners('exit'); child.kill(); process.exit(0); });
  start();
} else {
  require('node-fastcgi').createServer(answer).listen();
}

function answer(req, res) {
  const q = new URL(req.url, 'http://a').searchParams;
  const env = req.socket.params;
  req.socket.on('error', () => {}); // the client has gone
  if (q.get('die') === 'head') {
    process.exit(3);
  } else if (q.has('events')) {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    let left = Number(q.get('events'));
    const timer = setInterval(() => {
      res.write(`data: ${BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6))}\n\n`);
      if (--left === 0) {
        clearInterval(timer);
        res.end();
      }
    }, 20);
  } else if (q.has('status')) {
    res.writeHead(Number(q.get('status')), { 'Content-Type': 'text/plain', 'Set-Cookie': ['a=1', 'b=2'] });
    res.end(`status ${q.get('status')}\n`);
  } else if (q.has('bytes')) {
    res.writeHead(200, { 'Content-Type': 'text/plain' });
    const piece = Buffer.from('0123456789abcdef'.repeat(4096));
    let left = Number(q.get('bytes'));
    const go = () => {
      while (left > 0 && !res.destroyed) {
        const now = piece.subarray(0, left);
        left -= now.length;
        if (!res.write(now)) {
          res.once('drain', go);
          return;
        }
      }
      res.end();
    };
    go();
  } else if (q.has('log')) {
    req.socket.errorStream.write(`from the application: ${q.get('log')}\twith a tab\n`);
    res.writeHead(200, { 'Content-Type': 'text/plain' });
    res.end('logged\n');
  } else if (q.has('die')) {
    res.writeHead(200, { 'Content-Type': 'text/plain' });
    res.write('x'.repeat(100000));
    setTimeout(() => process.exit(3), 300);
  } else {
    const sum = createHash('sha256');
    let size = 0;
    req.on('data', (piece) => { size += piece.length; sum.update(piece); });
    req.on('end', () => {
      res.writeHead(200, { 'Content-Type': 'text/plain' });
      for (const name of ['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'CONTENT_LENGTH', 'REQUEST_URI', 'SERVER_PROTOCOL', 'HTTP_X_ODD', 'OWN_VARIABLE']) {
        res.write(`${name}=${env[name] ?? '(unset)'}\n`);
      }
      res.end(`READ=${size}\nSHA256=${sum.digest('hex')}\n`);
    });
  }
}
