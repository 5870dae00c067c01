// An HTTP/2 server for httpjet to stand in front of: in clear text and, with the
// certificate and key that are named, over TLS.
'use strict';
const fs = require('fs');
const http2 = require('http2');

const seen = {sessions: 0, refused: 0};

function session(s) {
  seen.sessions++;
  s.streams = 0;
  s.on('error', () => {}); // a peer that goes is none
}

function stream(st, head) {
  const path = head[':path'];
  st.on('error', () => {});
  st.session.streams++;
  const text = {':status': 200, 'content-type': 'text/plain'};
  switch (true) {
  case path === '/n/get':
    st.respond({...text, 'x-authority': head[':authority'], 'x-scheme': head[':scheme'], 'set-cookie': ['a=1', 'b=2']});
    st.end('from node\n');
    break;
  case path === '/n/echo':
    st.respond(text);
    st.pipe(st);
    break;
  case path === '/n/trailers':
    st.additionalHeaders({':status': 103, link: '</style.css>; rel=preload'});
    st.respond({...text, 'x-te': head.te || ''}, {waitForTrailers: true});
    st.on('wantTrailers', () => st.sendTrailers({'grpc-status': '0', 'x-sum': '9'}));
    st.end('body');
    break;
  case path === '/n/reset':
    st.respond(text);
    st.write('begin', () => st.destroy(new Error('reset'))); // close would end the body first
    break;
  case path === '/n/refuse': // every other time: not processed
    if (++seen.refused % 2 === 1) {
      st.close(http2.constants.NGHTTP2_REFUSED_STREAM);
      break;
    }
    st.respond(text);
    st.end('taken\n');
    break;
  case path === '/n/last': // GOAWAY after 25 streams
    st.respond(text);
    st.end('served\n');
    if (st.session.streams >= 25) st.session.close();
    break;
  case path === '/n/seen':
    st.respond(text);
    st.end(JSON.stringify(seen));
    break;
  default:
    st.respond({':status': 404}, {endStream: true});
  }
}

function listen(server, name) {
  server.on('session', session);
  server.on('stream', stream);
  server.listen(0, '127.0.0.1', () => console.log(`${name} ${server.address().port}`));
}

listen(http2.createServer(), 'plain');
listen(http2.createSecureServer({cert: fs.readFileSync(process.argv[2]), key: fs.readFileSync(process.argv[3])}), 'secure');
