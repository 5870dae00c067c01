#!/usr/bin/env bash
# Runs the scenario of compose.yaml and looks at what it promises: weights, limits,
# breaker, life of the process while its applications are gone, logs, metrics, alerts,
# every query of the dashboard, a clean end.
#
#   scripts/smoke.sh          with processes of this machine
#   scripts/smoke.sh IMAGE    with httpjet in a container of that image (needs docker)
#
# Prometheus and jq are installed if they are missing and this is root.
set -euo pipefail
cd "$(dirname "$0")/.."
image=${1:-}
work=$(mktemp -d)
chmod 755 "$work"
pids=()
container=
fail() { echo "FAIL: $*" >&2; tail -n 20 "$work"/*.log >&2 || true; exit 1; }
trap 'fail "line $LINENO"' ERR
cleanup() {
  trap - ERR
  [ -z "$container" ] || docker rm -f "$container" >/dev/null 2>&1 || true
  [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
ok() { echo "ok   $*"; }
# until_true SECONDS COMMAND...: waits for something to be so.
until_true() {
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

missing=()
command -v jq >/dev/null || missing+=(jq)
command -v promtool >/dev/null || missing+=(prometheus)
if [ ${#missing[@]} -gt 0 ]; then
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >"$work/apt.log" 2>&1
fi

go build -o "$work/mock" ./demo/mock
[ -n "$image" ] || make -s build
mkdir "$work/root"
cp -r demo/compose/conf demo/compose/html "$work/root/"
mkdir -m 777 "$work/root/logs" "$work/root/run"

# Ports that nobody has, below those that the kernel gives away.
ports=()
while [ ${#ports[@]} -lt 6 ]; do
  p=$((20000 + RANDOM % 12000))
  [[ " ${ports[*]} " == *" $p "* ]] || (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || ports+=("$p")
done
http=127.0.0.1:${ports[3]} admin=127.0.0.1:${ports[4]} prom=127.0.0.1:${ports[5]}
sed -i "s/backend-a:8001/127.0.0.1:${ports[0]}/; s/backend-b:8002/127.0.0.1:${ports[1]}/; s/backend-c:8003/127.0.0.1:${ports[2]}/" "$work/root/conf/vhosts/demo.xml"
sed -i "s/0.0.0.0:9091/$admin/; s/\*:8080/$http/" "$work/root/conf/httpd_config.xml"

backends=()
start_backends() {
  backends=()
  "$work/mock" backend -addr "127.0.0.1:${ports[0]}" -name a >>"$work/a.log" 2>&1 & backends+=($!)
  "$work/mock" backend -addr "127.0.0.1:${ports[1]}" -name b >>"$work/b.log" 2>&1 & backends+=($!)
  "$work/mock" backend -addr "127.0.0.1:${ports[2]}" -name c -fail >>"$work/c.log" 2>&1 & backends+=($!)
  pids+=("${backends[@]}")
}
start_backends

if [ -n "$image" ]; then
  docker run --rm --network host -v "$work/root:/srv/httpjet" --entrypoint /usr/bin/httpjet "$image" --root /srv/httpjet check --strict >"$work/check.log"
  container=$(docker run -d --network host --read-only --cap-drop ALL --tmpfs /tmp -v "$work/root:/srv/httpjet" "$image")
  [ "$(docker inspect -f '{{.Config.User}}' "$image")" != "" ] || fail "the image runs as root"
  ok "the image is not root's"
else
  bin/httpjet --root "$work/root" check --strict >"$work/check.log" 2>&1
  bin/httpjet --root "$work/root" serve >"$work/httpjet.log" 2>"$work/httpjet.err.log" & server=$!
  pids+=("$server")
fi
ok "check --strict"
until_true 30 curl -sf "http://$admin/readyz" || fail "never ready"
ok "ready"

# Weights: of 40 answers the first instance gives 20, the others 10 each.
for _ in $(seq 40); do curl -sf "http://$http/api/" | jq -r .backend; done | sort | uniq -c | awk '{print $2 "=" $1}' >"$work/weights"
grep -qx a=20 "$work/weights" && grep -qx b=10 "$work/weights" && grep -qx c=10 "$work/weights" || fail "weights: $(tr '\n' ' ' <"$work/weights")"
ok "weights 2, 1, 1: $(tr '\n' ' ' <"$work/weights")"

# Limits: 5 at once, then 429 with Retry-After. One curl asks for all, so that they come
# within the second after which there is room for one more, or nearly.
curl -s -o /dev/null -w '%{http_code}\n' "http://$http/limited/?[1-20]" | sort | uniq -c | awk '{print $2 "=" $1}' >"$work/limited"
grep -qE '^200=([5-9]|1[0-9])$' "$work/limited" && grep -qE '^429=[1-9]' "$work/limited" || fail "limits: $(cat "$work/limited")"
curl -s -D - -o /dev/null "http://$http/limited/?[1-20]" | grep -i '^retry-after: [1-9]' >/dev/null || fail "no Retry-After"
ok "limit of a client: $(tr '\n' ' ' <"$work/limited")"

# Breaker: three failures, then the failing instance gets no request.
curl -s -o /dev/null -w '%{http_code}\n' "http://$http/breaker/?[1-30]" >"$work/breaker"
[ "$(grep -c 502 "$work/breaker")" = 3 ] || fail "breaker: $(sort "$work/breaker" | uniq -c | tr '\n' ' ')"
curl -sf "http://$admin/metrics" | grep '^httpjet_proxy_peer_breaker_state{breaker="response",group="breaker",peer="2",scope="vhost:demo"} 1' >/dev/null || fail "the breaker is not open"
ok "breaker: 3 failures of 30, then none"

# Nothing of the management listener is on the site, and the other way round.
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/metrics")" = 404 ] || fail "/metrics is on the site"
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$admin/api/")" = 404 ] || fail "the site is on the management listener"
ok "management is apart"

curl -sf "http://$admin/metrics" | promtool check metrics >"$work/promtool.log" 2>&1 || fail "promtool check metrics: $(cat "$work/promtool.log")"
[ ! -s "$work/promtool.log" ] || fail "promtool check metrics: $(cat "$work/promtool.log")"
ok "promtool check metrics"
cp packaging/monitoring/alerts.yml "$work/"
sed "s/httpjet:9091/$admin/; s/: 5s/: 1s/" packaging/monitoring/prometheus.yml >"$work/prometheus.yml"
promtool check config "$work/prometheus.yml" >"$work/promtool.log" 2>&1 || fail "promtool check config: $(cat "$work/promtool.log")"
ok "promtool check config and alerts"

# Every query of the dashboard has data.
"$work/mock" traffic -url "http://$http" -rate 50 >"$work/traffic.log" 2>&1 & traffic=$!
pids+=("$traffic")
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="$prom" >"$work/prometheus.log" 2>&1 & pids+=($!)
until_true 60 curl -sf "http://$prom/-/ready" || fail "Prometheus does not start"
query() { curl -sfG "http://$prom/api/v1/query" --data-urlencode "query=$1"; }
answers() { [ "$(query "$1" | jq '.data.result | length')" -gt 0 ]; }
until_true 30 answers 'rate(httpjet_requests_total[1m])' || fail "Prometheus has no rate"
n=0
while IFS= read -r q; do
  q=${q//\$instance/.*}
  until_true 20 answers "$q" || fail "no data: $q"
  n=$((n + 1))
done < <(jq -r '.panels[].targets[]?.expr' packaging/monitoring/grafana.json)
[ "$n" -ge 20 ] || fail "only $n queries"
ok "all $n queries of the dashboard have data"

# The applications go and come back: the process lives, readiness tells.
kill -KILL "${backends[@]}"
alive() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$admin/livez")" = 200 ]; }
until_true 30 alive || fail "not alive without applications"
not_ready() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$admin/readyz")" = 503 ]; }
until_true 30 not_ready || fail "ready without applications"
[[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/api/")" =~ ^50[23]$ ]] || fail "an answer without applications"
firing() { curl -sf "http://$prom/api/v1/alerts" | jq -e --arg n "$1" '.data.alerts[] | select(.labels.alertname == $n)'; }
until_true 60 firing HttpjetPeerDown || fail "no alert for peers that are down"
until_true 60 firing HttpjetGroupWithoutPeer || fail "no alert for a group without peers"
start_backends
until_true 60 curl -sf "http://$admin/readyz" || fail "not ready again"
ok "outage: alive, not ready, alerts pending, ready again"

kill "$traffic"
if [ -n "$image" ]; then
  docker logs "$container" >"$work/httpjet.log" 2>"$work/httpjet.err.log"
fi
grep '"msg":"request_completed"' "$work/httpjet.log" | tail -200 | jq -es 'length > 100 and all(.[]; has("status") and has("outcome") and has("duration_ms"))' >/dev/null || fail "no completion records"
ok "completion log is JSON"
if [ -n "$image" ]; then
  docker stop -t 20 "$container" >/dev/null
  [ "$(docker inspect -f '{{.State.ExitCode}}' "$container")" = 0 ] || fail "exit code"
else
  kill -TERM "$server"
  wait "$server" || fail "exit code $?"
fi
ok "SIGTERM ends it with 0"
