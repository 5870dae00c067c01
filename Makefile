# Every target does its own set-up; Go and make are enough for all but interop
# and bench, which install their peers.

GO      ?= go
T       ?= 30s
BENCH   ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATIC  := CGO_ENABLED=0
TOOL    := $(GO) tool -modfile=tools/go.mod

.PHONY: all build vet test check demo fuzz bench profile soak interop interop-ci interop-rewrite interop-lsphp interop-cache docs deb deb-test deb-test-clean clean

all: build vet test

build: ## one static binary: bin/httpjet
	$(STATIC) $(GO) build -trimpath -pgo=packaging/httpjet.pgo -ldflags '-s -w -X httpjet/server.Version=$(VERSION)' -o bin/httpjet ./cmd/httpjet

vet:
	$(GO) vet ./...

test: ## all tests; needs no C compiler
	$(STATIC) $(GO) test ./...

check: ## what must hold before a change lands: format, vet, staticcheck, race tests (models and storms of make test in short form)
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "gofmt would change: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) fix -diff ./...
	$(TOOL) staticcheck ./...
	$(GO) test -race -short ./...

demo: build ## serve the embedded demonstration on 127.0.0.1:8080
	bin/httpjet demo

fuzz: ## every fuzz target in turn, T=30s each
	@for f in $$(grep -rhoE --include='*_test.go' 'func Fuzz[A-Za-z0-9]+' . | sed 's/func //' | sort -u); do \
	  dir=$$(grep -rl --include='*_test.go' "func $$f(" . | head -1 | xargs dirname); \
	  echo "fuzz $$dir $$f"; $(GO) test $$dir -run '^$$' -fuzz "^$$f$$" -fuzztime $(T) || exit 1; done

bench: build ## against nginx, HAProxy and Caddy in one run; BENCH=proxy runs one
	$(GO) run ./bench $(BENCH)

profile: ## packaging/httpjet.pgo anew, before a release: what make build tells the compiler of the scenarios of make bench
	scripts/profile.sh

soak: build ## mixed traffic over reloads, upgrades and deaths of upstreams, every answer known; T=30s or longer
	$(GO) run ./soak --bin=bin/httpjet $(T)

interop: build ## against real programs; installs them, a missing one fails
	$(GO) run ./interop full

interop-lsphp: build ## against lsphp, built from Debian's source once; HTTPJET_LSPHP_CACHE says where
	$(GO) run ./interop ci lsphp

interop-cache: build ## the public suite for HTTP caches, from the checkout that CACHE_TESTS names; writes docs/cache-conformance.md
	$(GO) run ./interop ci cache-tests

interop-ci: build
	$(GO) run ./interop ci

interop-rewrite: build ## 1,000 requests through Apache httpd and httpjet, over the same .htaccess files
	$(GO) run ./interop full apache

docs: ## regenerate the documents that are compared in tests
	$(GO) test ./xmlconf ./metrics ./check ./cmd/httpjet -run Docs -update

# The same commit gives the same package, byte by byte: dates are those of the commit.
NFPM    := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
DATE    := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
DEBVER  := $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/+/g')
DEBVER  := $(or $(DEBVER),$(shell TZ=UTC git log -1 --date=format-local:%Y%m%d.%H%M%S --format=0~%cd.%h 2>/dev/null || echo 0))
ARCH    := $(shell $(GO) env GOARCH)

deb: build ## dist/httpjet_VERSION_ARCH.deb
	@mkdir -p dist
	gzip -9nc packaging/httpjet.1 >dist/httpjet.1.gz
	gzip -9nc CHANGELOG.md >dist/changelog.gz
	for s in bash zsh fish; do bin/httpjet completion $$s >dist/completion.$$s || exit 1; done
	SOURCE_DATE_EPOCH=$(DATE) VERSION='$(DEBVER)' ARCH=$(ARCH) $(GO) run $(NFPM) package -f packaging/nfpm.yaml -p deb -t dist/

deb-test: deb ## installs the package, runs it as its unit does, and removes it again; for root, on a machine that has none
	packaging/test dist/httpjet_$(DEBVER)_$(ARCH).deb

deb-test-clean: deb ## the same in a new Debian by debootstrap, where every file is looked at behind it; for root, takes minutes
	packaging/test-clean dist/httpjet_$(DEBVER)_$(ARCH).deb

clean:
	rm -rf bin dist
