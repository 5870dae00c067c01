#!/usr/bin/env bash
# Makes packaging/httpjet.pgo anew: what httpjet spends its time on in the scenarios of
# make bench, for the compiler (profile-guided optimization). Some ten minutes; it
# installs what make bench installs. The program that is measured is httpjet with one
# file more, which never lies in the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/profiles"
sed "s#DIR#$work/profiles#" tools/pgo/start.go.txt >"$work/start.go"
echo "{\"Replace\":{\"$PWD/cmd/httpjet/start_profile.go\":\"$work/start.go\"}}" >"$work/overlay.json"
CGO_ENABLED=0 go build -pgo=off -overlay "$work/overlay.json" -trimpath -o "$work/httpjet" ./cmd/httpjet
go build -o "$work/bench" ./bench
for scenario in proxy static-1k static-100k cache cache-page fastcgi websocket tls-proxy h2-static h2-proxy h2-single-static h2-single-proxy group; do
  "$work/bench" -bin "$work/httpjet" -cores one -rounds 1 -patience 1s -repeats 0 "$scenario"
done
go run -C tools ./pgo "$PWD/packaging/httpjet.pgo" "$work"/profiles/*
ls -l packaging/httpjet.pgo
