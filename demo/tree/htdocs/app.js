'use strict';

const $ = (id) => document.getElementById(id);

// show writes one result, or an error in words and colour.
function show(out, text, bad = false) {
  out.textContent = text;
  out.classList.toggle('bad', bad);
}

// ask fetches url and shows status line, chosen fields and body.
async function ask(out, url, fields = [], options = {}) {
  try {
    const r = await fetch(url, { cache: 'no-store', ...options });
    const head = fields.filter((f) => r.headers.has(f)).map((f) => `${f}: ${r.headers.get(f)}\n`).join('');
    const type = r.headers.get('content-type') || '';
    const body = type.startsWith('text/html') ? '' : await r.text();
    show(out, `${r.status} ${r.statusText}\n${head}\n${body}`);
  } catch (e) {
    show(out, `no answer: ${e.message}`, true);
  }
}

// add appends one line to a list and keeps the newest fifty in view.
function add(list, text) {
  const item = document.createElement('li');
  item.textContent = text;
  list.append(item);
  while (list.children.length > 50) list.firstChild.remove();
  list.scrollTop = list.scrollHeight;
}

function state(id, text, kind = '') {
  const s = $(id);
  if (s.textContent !== text) s.textContent = text;
  s.className = `state ${kind}`;
}

function onSubmit(form, f) {
  form.addEventListener('submit', (e) => { e.preventDefault(); f(); });
}

// Proxied application.
const askApp = () => ask($('app-out'), `/app/hello?name=${encodeURIComponent($('app-name').value)}`, ['via', 'content-type']);
onSubmit($('app-form'), askApp);

// Event stream.
let source = null;
function listen() {
  source = new EventSource('/app/events');
  source.onopen = () => state('sse-state', 'live', 'good');
  source.onerror = () => state('sse-state', 'lost, trying again', 'bad');
  source.onmessage = (e) => add($('sse-list'), `${new Date().toLocaleTimeString()}  ${e.data}`);
}
$('sse-toggle').addEventListener('click', () => {
  if (source) {
    source.close();
    source = null;
    state('sse-state', 'paused');
  } else {
    state('sse-state', 'connecting');
    listen();
  }
  $('sse-toggle').textContent = source ? 'Pause' : 'Go on';
});

// WebSocket.
let socket = null;
function open() {
  socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws`);
  socket.onopen = () => state('ws-state', 'open', 'good');
  socket.onmessage = (e) => add($('ws-list'), `← ${e.data}`);
  socket.onclose = () => {
    state('ws-state', 'closed, trying again', 'bad');
    setTimeout(open, 3000);
  };
}
onSubmit($('ws-form'), () => {
  if (socket.readyState !== WebSocket.OPEN) return;
  const text = $('ws-text').value;
  add($('ws-list'), `→ ${text}`);
  socket.send(text);
});

// FastCGI.
function runFCGI() {
  const path = $('fcgi-path').value;
  ask($('fcgi-out'), `/cgi/show.fcgi${path.startsWith('/') || path.startsWith('?') ? '' : '/'}${path}`);
}
onSubmit($('fcgi-form'), runFCGI);

// Files.
$('file-range').addEventListener('click', () =>
  ask($('file-out'), '/files/sample.txt', ['content-range', 'etag'], { headers: { Range: 'bytes=0-50' } }));
$('file-denied').addEventListener('click', () => ask($('file-out'), '/private/notes.txt'));

// From a terminal.
show($('term-out'), [
  `curl -N '${location.origin}/app/events?count=3'`,
  `curl -i -d word=jet ${location.origin}/app/echo`,
  `curl -i -r 0-50 ${location.origin}/files/sample.txt`,
  `curl -i '${location.origin}/cgi/show.fcgi/some/page?x=1'`,
].join('\n\n'));

askApp();
listen();
open();
runFCGI();
