"use strict";
// The page asks for two documents every two seconds, and for timelines while they are
// open, and changes what has changed: rows stay, cells are written only with another
// text. It sends nothing.

const every = 2000, kept = 150;
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// put writes a text, and a class, only if it is another one.
function put(el, text, cls) {
  text = String(text);
  if (el.textContent !== text) el.textContent = text;
  if (cls !== undefined && el.className !== cls) el.className = cls;
}

// rows makes the table body have a row for each item, by its key; cells fills them.
function rows(body, items, keyOf, width, fill) {
  body.rowsByKey ??= new Map();
  const seen = new Set();
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let row = body.rowsByKey.get(key);
    if (!row) {
      row = document.createElement("tr");
      for (let i = 0; i < width; i++) row.append(document.createElement("td"));
      body.rowsByKey.set(key, row);
      body.append(row);
    }
    fill(row, item);
  }
  for (const [key, row] of body.rowsByKey) {
    if (!seen.has(key)) { row.remove(); body.rowsByKey.delete(key); }
  }
}

// list makes a <dl> have these terms.
function list(dl, pairs) {
  dl.parts ??= new Map();
  for (const [term, text, cls] of pairs) {
    let dd = dl.parts.get(term);
    if (!dd) {
      const dt = document.createElement("dt");
      dd = document.createElement("dd");
      dt.textContent = term;
      if (dl.classList.contains("tiles")) {
        const div = document.createElement("div");
        div.append(dt, dd);
        dl.append(div);
      } else dl.append(dt, dd);
      dl.parts.set(term, dd);
    }
    put(dd, text, cls ?? "");
  }
}

let last = null;            // the status before, with the time it came
const history = [];         // {rate, bad}
const minute = new Map();   // token: [[time, count]]
let failures = 0, paused = false, timer = 0;

function traffic(s, now) {
  let rate = 0, bad = 0;
  if (last && s.requests.total >= last.s.requests.total) {
    const dt = (now - last.at) / 1000;
    rate = (s.requests.total - last.s.requests.total) / dt;
    bad = Math.max(0, s.requests.by_class["5xx"] - last.s.requests.by_class["5xx"]) / dt;
    history.push({ rate, bad });
    if (history.length > kept) history.shift();
  }
  list($("traffic"), [
    ["requests a second", number.format(rate)],
    ["5xx a second", number.format(bad), bad > 0 ? "bad" : ""],
    ["requests now", s.requests.active],
    ["connections", s.connections.active],
    ["WebSockets", s.websocket_relays],
    ["requests in all", number.format(s.requests.total)],
  ]);
  const top = Math.max(1, ...history.map((p) => p.rate));
  const line = (f) => history.map((p, i) => `${i ? "L" : "M"}${(600 * (kept - history.length + i)) / (kept - 1)} ${78 - (76 * f(p)) / top}`).join("");
  $("line-all").setAttribute("d", line((p) => p.rate));
  $("line-bad").setAttribute("d", line((p) => p.bad));
  $("chart").setAttribute("aria-label", `requests a second: ${number.format(rate)}, at most ${number.format(top)}`);
}

function configuration(s) {
  const g = s.generation, r = g.last_reload;
  list($("generation"), [
    ["generation", `${g.number}, loaded ${g.loaded_at}`],
    ["hash", g.hash],
    ["last reload", r.result + (r.at ? `, ${r.at}` : "") + (r.error ? `: ${r.error}` : ""), r.result === "failure" ? "bad" : ""],
    ["not served", g.degraded.length ? g.degraded.join("; ") : "nothing is left out", g.degraded.length ? "bad" : ""],
    ["version", s.version],
    ["up", `${number.format(s.uptime_s)} s${s.draining ? ", stopping" : ""}`, s.draining ? "warn" : ""],
  ]);
  rows($("listeners").tBodies[0], s.listeners, (l) => l.name + l.address, 3, (row, l) => {
    put(row.cells[0], l.name);
    put(row.cells[1], l.address);
    put(row.cells[2], l.protocols.join(", ") + (l.secure ? " over TLS" : ""));
  });
}

function errors(s, now) {
  const list = Object.entries(s.errors ?? {}).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  $("no-errors").hidden = list.length > 0;
  rows($("errors").tBodies[0], list, ([t]) => t, 3, (row, [token, n]) => {
    const seen = minute.get(token) ?? [];
    seen.push([now, n]);
    while (seen.length > 1 && now - seen[0][0] > 60000) seen.shift();
    minute.set(token, seen);
    const recent = n - seen[0][1];
    put(row.cells[0], token);
    put(row.cells[1], number.format(n));
    put(row.cells[2], number.format(recent), recent > 0 ? "bad" : "");
  });
}

function others(s) {
  const caches = Object.entries(s.caches ?? {}).filter(([, c]) => c); // a page cache that no host has is null
  for (const c of s.caches?.proxy_cache?.contexts ?? []) caches.push([`${c.vhost} ${c.context}`, c]);
  $("caches-section").hidden = !caches.length;
  rows($("caches").tBodies[0], caches, ([name]) => name, 2, (row, [name, c]) => {
    put(row.cells[0], name.replace("_", " "));
    put(row.cells[1], Object.entries(c).filter(([, v]) => typeof v === "number").map(([k, v]) => `${k.replaceAll("_", " ")} ${number.format(v)}`).join(", "));
  });
  const certificates = s.certificates ?? [];
  $("certificates-section").hidden = !certificates.length;
  rows($("certificates").tBodies[0], certificates, (c) => `${c.source}/${c.name}/${c.not_after}`, 4, (row, c) => {
    const days = c.not_after ? (new Date(c.not_after) - Date.now()) / 86400000 : 0;
    put(row.cells[0], c.name);
    put(row.cells[1], c.source === "acme" ? "ACME" : c.source);
    put(row.cells[2], c.not_after ?? "none yet", days < 3 ? "bad" : days < 14 ? "warn" : "");
    put(row.cells[3], c.error ?? "", c.error ? "bad" : "");
  });
  $("apps-section").hidden = !s.applications.length;
  rows($("apps").tBodies[0], s.applications, (a) => a.scope + "/" + a.name, 4, (row, a) => {
    put(row.cells[0], a.scope + "/" + a.name);
    put(row.cells[1], a.state, a.state === "ready" ? "good" : a.state === "failed" ? "bad" : "");
    put(row.cells[2], a.pids.length);
    put(row.cells[3], a.restarts);
  });
  $("tunnels").hidden = !s.tunnels.length;
  $("no-tunnels").hidden = s.tunnels.length > 0;
  rows($("tunnels").tBodies[0], s.tunnels, (t) => t.generation, 2, (row, t) => {
    put(row.cells[0], t.generation === s.generation.number ? `${t.generation}, in use` : t.generation);
    put(row.cells[1], t.open);
  });
  $("leaving-section").hidden = !s.tunnels_leaving.length;
  rows($("leaving").tBodies[0], s.tunnels_leaving, (t) => t.name + t.close_at, 3, (row, t) => {
    put(row.cells[0], t.name);
    put(row.cells[1], t.open);
    put(row.cells[2], t.close_at);
  });
}

const states = { eligible: "good", cold: "warn", draining: "warn", down: "bad", broken: "bad" };
const columns = ["peer", "state", "weight", "active", "chosen", "failed", "breakers", "connections", "health checks"];
const sections = new Map();

function section(key) {
  let s = sections.get(key);
  if (!s) {
    s = document.createElement("section");
    s.className = "group";
    const h = document.createElement("h3"), name = document.createElement("span"), about = document.createElement("small");
    h.append(name, " ", about);
    const table = document.createElement("table"), head = table.createTHead().insertRow();
    for (const c of columns) {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = c;
      head.append(th);
    }
    s.append(h, table);
    s.parts = { name, about, body: table.createTBody() };
    sections.set(key, s);
    $("group-list").append(s);
  }
  return s;
}

// checks draws the latest health checks of a peer, the last one on the right: low bars
// for those that succeeded, high ones for those that failed.
function checks(cell, p) {
  const past = p.probe_history ?? "";
  const reason = p.last_probe && p.last_probe.result !== "success" ? p.last_probe.reason ?? "" : "";
  if (cell.past === past && cell.reason === reason) return;
  cell.past = past;
  cell.reason = reason;
  if (!cell.svg) {
    const make = (name) => document.createElementNS($("chart").namespaceURI, name);
    cell.svg = make("svg");
    cell.svg.setAttribute("viewBox", "0 0 120 14");
    cell.svg.setAttribute("role", "img");
    cell.good = make("path");
    cell.good.setAttribute("class", "ok");
    cell.bad = make("path");
    cell.svg.append(cell.good, cell.bad);
    cell.said = document.createElement("span");
    cell.append(cell.svg, cell.said);
  }
  const bars = (sign, height) => [...past].map((c, i) => c === sign ? `M${4 * (i + 30 - past.length)} 14v-${height}h3v${height}z` : "").join("");
  cell.good.setAttribute("d", bars("+", 4));
  cell.bad.setAttribute("d", bars("-", 13));
  cell.svg.setAttribute("aria-label", past ? `${[...past].filter((c) => c === "+").length} of the last ${past.length} health checks succeeded` : "no health check");
  cell.svg.toggleAttribute("hidden", !past);
  put(cell.said, reason ? " " + reason : "");
}

function groups(list) {
  const want = $("filter").value.trim().toLowerCase(), trouble = $("trouble").checked, live = new Set();
  let shown = 0, all = 0;
  for (const g of list) {
    const key = g.scope + "/" + g.name, s = section(key);
    live.add(key);
    all += g.peers.length;
    const words = (key + " " + g.routes.map((r) => r.vhost + r.uri).join(" ")).toLowerCase();
    const peers = g.peers.filter((p) => (!trouble || p.state !== "eligible") && (!want || words.includes(want) || p.state.includes(want)));
    shown += peers.length;
    const hide = !peers.length && (trouble || want !== "");
    if (s.hidden !== hide) s.hidden = hide;
    put(s.parts.name, key);
    put(s.parts.about, `${g.policy}, ${g.protocol}; ${g.peers.filter((p) => p.state === "eligible").length} of ${g.peers.length} have requests; ${g.routes.map((r) => r.vhost + " " + r.uri).join(", ")}` +
      (g.no_upstream ? `; ${g.no_upstream} requests found no peer` : ""));
    rows(s.parts.body, peers, (p) => p.ordinal, columns.length, (row, p) => {
      const open = [["dial", p.dial_breaker], ["response", p.response_breaker]].filter(([, b]) => b !== "closed").map(([n, b]) => `${n} ${b.replace("_", "-")}`);
      put(row.cells[0], p.ordinal);
      put(row.cells[1], p.state, states[p.state] ?? "");
      put(row.cells[2], p.weight);
      put(row.cells[3], p.active);
      put(row.cells[4], number.format(p.selections));
      put(row.cells[5], number.format(p.failures), p.failures > 0 ? "warn" : "");
      put(row.cells[6], open.length ? open.join(", ") : "closed", open.length ? "bad" : "");
      put(row.cells[7], p.pool ? `${p.pool.busy} busy, ${p.pool.idle} idle` + (p.pool.dialing ? `, ${p.pool.dialing} dialing` : "") + (p.pool.waiting ? `, ${p.pool.waiting} waiting` : "") : "", p.pool?.waiting ? "warn" : "");
      checks(row.cells[8], p);
      if (row.cells[8].className !== "probes") row.cells[8].className = "probes";
    });
  }
  for (const [key, s] of sections) if (!live.has(key)) { s.remove(); sections.delete(key); }
  put($("shown"), want || trouble ? `${shown} of ${all} peers` : `${all} peers in ${list.length} groups`);
}

let upstreams = [];

// The last requests whose clients asked for a timeline; one that is chosen stands below
// with a bar for each attempt and each kind of moment.
const newest = 20;
let chosen = "";

async function timelines() {
  const t = await get(`api/v1/timelines?limit=${newest}`);
  $("recent").hidden = !t.timelines.length;
  put($("timeline-said"), !t.enabled ? "nobody may ask this server for one: write timelineFrom of tracing" :
    !t.timelines.length ? "no client has asked for one, by the field X-Httpjet-Timeline" : chosen && $("timeline").hidden ? `no timeline of ${chosen} is kept` : "", "");
  const body = $("recent").tBodies[0];
  const stays = document.activeElement?.closest?.("tr")?.parentElement === body; // rows under the keyboard are not moved
  rows(body, t.timelines, (l) => l.id, 6, (row, l) => {
    if (!row.pick) {
      row.pick = document.createElement("button");
      row.pick.type = "button";
      row.pick.className = "link";
      row.pick.textContent = l.id;
      row.pick.addEventListener("click", () => show(l.id));
      row.cells[0].append(row.pick);
    }
    put(row.cells[1], l.at);
    put(row.cells[2], `${l.method} ${l.vhost} ${l.route}`);
    put(row.cells[3], l.error ? `${l.status} ${l.error}` : l.status, l.status >= 500 ? "bad" : "");
    put(row.cells[4], l.attempts);
    put(row.cells[5], number.format(l.duration_ms));
  });
  if (!stays) t.timelines.forEach((l, i) => {
    const row = body.rowsByKey.get(l.id);
    if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] ?? null);
  });
}

// bar draws parts of a row: from and to in milliseconds of whole, and a class.
function bar(cell, whole, parts, said) {
  const make = (name) => document.createElementNS($("chart").namespaceURI, name);
  const svg = make("svg");
  svg.setAttribute("viewBox", "0 0 1000 16");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", said);
  const x = (ms) => 996 * Math.min(1, Math.max(0, ms / whole));
  for (const [from, to, cls] of parts) {
    const p = make("path");
    p.setAttribute("class", cls);
    p.setAttribute("d", `M${x(from)} 2h${Math.max(4, x(to) - x(from))}v12H${x(from)}z`);
    svg.append(p);
  }
  cell.replaceChildren(svg);
}

function draw(l) {
  const ms = (n) => n ? new Intl.NumberFormat("en", { maximumFractionDigits: 3 }).format(n) : "";
  const whole = Math.max(l.duration_ms, 0.001);
  put($("timeline-name"), l.id);
  put($("timeline-about"), `${l.method} over ${l.protocol} to ${l.vhost} ${l.route}, ${l.at}: ${l.status}${l.error ? " " + l.error : ""}, ${number.format(l.bytes)} bytes in ${ms(l.duration_ms)} ms` +
    (l.trace_id ? `; trace ${l.trace_id}` : "") + (l.lost_events ? `; ${l.lost_events} events more are not kept` : ""));
  const items = (l.attempt_list ?? []).map((a, i) => {
    const known = a.queue_ms + a.dial_ms + a.head_ms;
    return { key: "attempt " + (i + 1), at: a.ms, phases: [a.queue_ms, a.dial_ms, a.head_ms, a.status ? Math.max(0, a.took_ms - known) : 0],
      cls: a.status ? "body" : "failed", end: a.ms + a.took_ms, says: `peer ${a.peer} of ${a.group}: ${a.outcome}${a.status ? " " + a.status : ""}` };
  });
  const kinds = new Map();
  for (const m of l.moments ?? []) kinds.set(m.what, [...kinds.get(m.what) ?? [], m]);
  for (const [what, list] of kinds) {
    const last = list[list.length - 1];
    items.push({ key: what, at: list[0].ms, moments: list, says: [list.length > 1 ? `${list.length} times` : "", last.text ?? "", last.bytes ? `${number.format(last.bytes)} bytes by the last` : ""].filter(Boolean).join(", ") });
  }
  items.push({ key: "end", at: l.duration_ms, moments: [{ ms: l.duration_ms }], says: `${number.format(l.bytes)} bytes` });
  const body = $("bars").tBodies[0];
  rows(body, [], (i) => i.key, 8, () => {}); // another request has other rows
  rows(body, items, (i) => i.key, 8, (row, i) => {
    let at = i.at;
    const names = ["queue", "dial", "head", i.cls];
    const parts = i.moments ? i.moments.map((m) => [m.ms, m.ms, "moment"]) : i.phases.flatMap((d, n) => d > 0 ? [[at, at += d, names[n]]] : []);
    if (!i.moments && i.end > at) parts.push([at, i.end, "failed"]);
    put(row.cells[0], i.key);
    bar(row.cells[1], whole, parts, `${i.key} at ${ms(i.at) || 0} of ${ms(whole)} ms`);
    put(row.cells[2], ms(i.at) || "0");
    i.phases?.forEach((d, n) => put(row.cells[3 + n], ms(d)));
    put(row.cells[7], i.says);
  });
}

// show asks for the timeline of one request and goes there.
async function show(id) {
  chosen = id;
  $("timelines-open").open = true;
  $("timeline-id").value = id;
  try {
    const t = id ? await get("api/v1/timelines?id=" + encodeURIComponent(id)) : { timelines: [] };
    if (chosen !== id) return; // another one was asked for since
    $("timeline").hidden = !t.timelines.length;
    put($("timeline-said"), t.timelines.length || !id ? "" : `no timeline of ${id} is kept`, "");
    if (!t.timelines.length) return;
    draw(t.timelines[0]);
    $("timeline").focus();
    window.history.replaceState(null, "", "#timeline=" + encodeURIComponent(id));
  } catch {
    put($("timeline-said"), "the server does not answer", "bad");
  }
}

async function get(path) {
  const r = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (!r.ok) throw new Error(`${path}: ${r.status}`);
  return r.json();
}

async function tick() {
  clearTimeout(timer);
  if (!paused && !document.hidden) {
    try {
      const [s, u] = await Promise.all([get("api/v1/status"), get("api/v1/upstreams")]);
      const now = performance.now();
      upstreams = u.groups;
      traffic(s, now);
      configuration(s);
      errors(s, now);
      others(s);
      groups(upstreams);
      if ($("timelines-open").open) await timelines();
      last = { s, at: now };
      failures = 0;
      const down = upstreams.flatMap((g) => g.peers).filter((p) => p.state !== "eligible").length;
      const says = [s.draining ? "stopping" : "serving"];
      if (down) says.push(`${down} ${down === 1 ? "peer has" : "peers have"} no requests`);
      if (s.generation.last_reload.result === "failure") says.push("the last reload was refused");
      put($("summary"), says.join("; "), s.draining || says.length > 1 ? "warn" : "good");
    } catch {
      failures++;
      put($("summary"), "the server does not answer", "bad");
    }
  }
  clearTimeout(timer); // another tick may have set it meanwhile
  timer = setTimeout(tick, every * Math.min(8, 1 + failures));
}

$("filter").addEventListener("input", () => groups(upstreams));
$("trouble").addEventListener("change", () => groups(upstreams));
$("pause").addEventListener("click", () => {
  paused = !paused;
  put($("pause"), paused ? "Go on" : "Pause");
  $("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) tick();
});
$("timeline-form").addEventListener("submit", (e) => {
  e.preventDefault();
  show($("timeline-id").value.trim());
});
$("timelines-open").addEventListener("toggle", () => { if ($("timelines-open").open) timelines().catch(() => put($("timeline-said"), "the server does not answer", "bad")); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
if (location.hash.startsWith("#timeline=")) {
  try { show(decodeURIComponent(location.hash.slice(10))); } catch { } // no address of ours
}
tick();
