# `make help` lists the targets. Each installs what it needs and lacks first
# (scripts/bootstrap.sh), so any of them may be the first command typed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIND ?= 127.0.0.1
PORT ?= 6666
DATA ?= data
FUZZTIME ?= 10s
# Patterns of the packages that test, race, lint and fuzz cover.
PKGS ?= ./...
TESTFLAGS ?=
ARCH ?=
BENCHFLAGS ?=
BENCHDISKFLAGS ?=
CRASHFLAGS ?=
SOAKFLAGS ?=

# VERSION in the environment wins; make does not set it, or dist would get this one.
NAME := $(or $(VERSION),$(shell git describe --tags --always --dirty 2>/dev/null || echo unknown))
LDFLAGS := -X main.version=$(NAME)
GOFILES = find . -name '*.go' -not -path './build/*' -not -path './third_party/rocksdb/build/*' -not -path './$(DATA)/*'
# Go's tools, with the paths that scripts/env.sh sets.
ENV := . scripts/env.sh;

.PHONY: help run build test test-long lint race fuzz asan tsan arm64-check bench bench-disk bench-replica bench-metrics crash soak compat dist bootstrap clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Variables: PORT, BIND, DATA (run); PKGS, TESTFLAGS (test, race); FUZZTIME (fuzz);'
	@echo 'BENCHFLAGS (bench), BENCHDISKFLAGS (bench-disk), BENCHREPLICAFLAGS (bench-replica), CRASHFLAGS (crash), SOAKFLAGS (soak): for example'
	@echo 'BENCHFLAGS=-quick.'

bootstrap: ## Install what building needs and this machine lacks
	@scripts/bootstrap.sh

build: bootstrap ## Build build/basalt, linked statically with RocksDB
	@mkdir -p build
	@$(ENV) go build -buildvcs=false -ldflags '$(LDFLAGS)' -o build/basalt .
	@scripts/check-static.sh build/basalt

run: build ## Build and serve 127.0.0.1:6666 with kvrocks.toml, data under ./data
	@mkdir -p '$(DATA)'
	@echo 'basalt $(NAME) on $(BIND):$(PORT), data under $(DATA)'
	@echo 'connect with: redis-cli -h $(BIND) -p $(PORT)    stop with: Ctrl-C'
	@exec build/basalt -c kvrocks.toml --bind '$(BIND)' --port '$(PORT)' --dir '$(DATA)'

# lint runs go vet in full, so go test need not run a part of it over every package and its imports once more.
test: build ## Install redis-server for comparisons and run the tests, the long ones in short
	@scripts/bootstrap.sh --test
	@$(ENV) BASALT_BIN='$(CURDIR)/build/basalt' go test -vet=off -short -timeout 30m $(TESTFLAGS) $(PKGS)

test-long: build ## The same without -short: every test in full
	@scripts/bootstrap.sh --test
	@$(ENV) BASALT_BIN='$(CURDIR)/build/basalt' go test -vet=off -timeout 30m $(TESTFLAGS) $(PKGS)

race: bootstrap ## Run every test under the race detector
	@scripts/bootstrap.sh --test
	@$(ENV) go test -vet=off -race -timeout 30m $(TESTFLAGS) $(PKGS)

lint: bootstrap ## line length, gofmt, go vet and staticcheck
	@scripts/bootstrap.sh --lint
	@echo line length
	@scripts/linelength.sh
	@echo gofmt
	@$(ENV) unformatted=$$($(GOFILES) -print0 | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):" >&2; echo "$$unformatted" >&2; exit 1; fi
	@echo go vet
	@$(ENV) go vet $(PKGS)
	@echo staticcheck
	@$(ENV) GOGC=400 GOMEMLIMIT=4GiB staticcheck $(PKGS) # a fifth less CPU time, twice the memory

fuzz: bootstrap ## Run every fuzz target for FUZZTIME each
	@$(ENV) FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh $(PKGS)

asan: bootstrap ## Native code under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(ENV) scripts/native.sh asan

tsan: bootstrap ## The memtable under ThreadSanitizer
	@$(ENV) scripts/native.sh tsan

arm64-check: build ## Build build/arm64/basalt and try it under qemu, with some tests (PKGS=./engine: others)
	@scripts/bootstrap.sh --test --arm64
	@$(if $(filter-out file default,$(origin PKGS)),PKGS='$(PKGS)') scripts/arm64/check.sh build/basalt

bench: build ## Requests a second of basalt and redis-server side by side
	@scripts/bootstrap.sh --test
	@$(ENV) go run ./scripts/bench -basalt build/basalt $(BENCHFLAGS)

bench-disk: build ## Data larger than memory: throughput, latency and disk use, Kvrocks beside it
	@$(ENV) go run ./scripts/benchdisk -basalt build/basalt $(BENCHDISKFLAGS)

bench-replica: build ## What a replica costs its master, how fast it applies, lags and synchronises in full
	@scripts/bootstrap.sh --test
	@$(ENV) go run ./scripts/benchreplica -basalt build/basalt $(BENCHREPLICAFLAGS)

bench-metrics: build ## What /metrics costs under full load
	@$(ENV) go run ./scripts/benchmetrics -basalt build/basalt $(BENCHMETRICSFLAGS)

crash: build ## Kill basalt 20 times under load and look for lost writes
	@$(ENV) go run ./scripts/crash -basalt build/basalt $(CRASHFLAGS)

soak: build ## 10 million operations over 1 million keys: is memory flat?
	@$(ENV) go run ./scripts/soak -basalt build/basalt $(SOAKFLAGS)

compat: build ## Run go-redis, ioredis, BullMQ, redis-sentinel and kvrocks-controller with basalt; ROUNDS=N failovers
	@$(ENV) scripts/compat/run.sh '$(CURDIR)/build/basalt'

dist: bootstrap ## Make dist/: a tar.gz and a Debian package; ARCH=arm64: on another machine for arm64
	@$(if $(filter arm64,$(ARCH)),scripts/bootstrap.sh --arm64)
	@$(ENV) ARCH='$(ARCH)' scripts/dist/build.sh

clean: ## Remove build/ and dist/ (data/ and a RocksDB built from source stay)
	rm -rf build dist
