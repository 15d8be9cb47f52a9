# Parley: set-up, build, run, test. `make` alone lists the targets.
#
# Every target does the set-up it needs by itself, once: scripts/setup-*.sh check first and are
# silent, quick and off the network when nothing is missing. A failing set-up says in one line
# what to do.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# Arguments for the server (`make run`) or the load test (`make load`).
ARGS ?=
# 1: `make run` serves https with a self-signed certificate, which it makes once.
TLS ?=
self_signed := --tls-cert .tls/cert.pem --tls-key .tls/key.pem
# Where `make install` copies to; DESTDIR is put before it.
PREFIX ?= /usr/local
DESTDIR ?=
# What `make unit` tests: a word in the name of a test's file or folder.
T ?=
# The one seed of `make sim`.
SEED ?=
# The revision with which `make check` compares the working tree.
BASE ?= HEAD
# How long `make fuzz` runs each target.
SECONDS ?= 60

# The Swift runtime goes into the binary: it starts faster and needs no toolchain where it runs.
release_build := swift build -c release --static-swift-stdlib
# Warnings are errors here and in CI, but not in `make build`: a user's newer compiler may know
# warnings that do not exist yet.
strict := PARLEY_STRICT=1
swift_sources := Package.swift Sources Tests LoadTests examples

help: ## List the targets
	@echo 'make TARGET, where TARGET is one of'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

## Run -------------------------------------------------------------------------------------

run: build ## Set up, build and start the server; ARGS="--port 9000 …"; TLS=1: with https
ifeq ($(TLS),1)
	@scripts/tls-certificate.sh
endif
	@PARLEY_WARM_MODELS=$${PARLEY_WARM_MODELS-true} PARLEY_DEMO_AGENT=$${PARLEY_DEMO_AGENT-guide} exec .build/release/parley serve $(if $(filter 1,$(TLS)),$(self_signed)) $(ARGS)

build: setup ## Make .build/release/parley
	@[[ -e .build/release/parley ]] || echo 'parley: building the server; the first time takes 3 to 7 minutes on 2 cores'
	@$(release_build) --product parley

install: ## Install bin/parley and share/parley/models in PREFIX=/usr/local, below DESTDIR; after make build
	@scripts/install.sh "$(DESTDIR)$(PREFIX)"

cluster: build ## Three nodes behind HAProxy with Redis and Prometheus; ARGS="--llm …", CLUSTER_PORT=8600
	@exec scripts/cluster.sh up $(ARGS)

brain: ## Start a local language model on 127.0.0.1:8000 (BRAIN_PORT=…)
	@exec scripts/brain.sh

## Set-up ----------------------------------------------------------------------------------

# Apt before models (they need Python's venv) and before SwiftPM (it needs libcurl). Swift packages and
# models download side by side; Ctrl-C, which does not reach a command in the background, ends both.
setup: ## Install what building and running takes: Debian packages, Swift packages, models
	@scripts/check-swift.sh
	@scripts/setup-apt.sh build
	@scripts/setup-swift.sh & packages=$$!; trap 'kill $$packages' INT TERM; models=0; \
		scripts/setup-models.sh || models=$$?; wait $$packages && exit $$models
	@scripts/setup-voice.sh --optional

models: ## Make models/ only
	@scripts/setup-apt.sh build
	@scripts/setup-models.sh

voice: models ## Fetch the natural voice into models/, as make setup does where it can
	@scripts/setup-voice.sh

languages: models ## Fetch speech recognition of other languages (130 MB) into models/
	@scripts/setup-languages.sh

smart-turn: models ## Fetch a model that hears whether a turn is over; for --turn-model smart-turn
	@scripts/setup-smart-turn.sh

setup-tests: setup
	@scripts/setup-apt.sh test
	@scripts/setup-voice.sh
	@scripts/setup-languages.sh
	@scripts/setup-smart-turn.sh

environments: setup-tests ## The virtual environments of the tests
	@scripts/setup-environments.sh

## Test ------------------------------------------------------------------------------------

test: setup-tests ## Set up and run every test: all the targets below. What CI runs
	@exec scripts/test.sh "lint test-scripts build test-clients test-fuzz" "test-swift test-vad" \
		"environments after:build test-browser test-metrics test-tls test-conformance"

check: setup-tests ## Lint, tidy and the Swift tests that a change concerns; BASE=main: since main
	@BASE=$(BASE) exec scripts/check.sh

test-swift: setup ## Unit, session, server and tidy tests; ARGS="--filter CodecTests" selects
	@exec scripts/test-swift.sh $(ARGS)

test-scripts: ## What chooses the tests of a change, and what reports failed tests
	@exec python3 Tests/scripts/run.py

unit: setup ## Only the tests that T names, with what they need; T=TurnDetector, Hearing, CodecTests
	@exec scripts/unit.sh $(T)

sim: setup ## The simulated server in a storm of events drawn from SEED=7; without: 24 seeds
	@PARLEY_SEED=$(SEED) exec scripts/unit.sh ShardStormTests

test-clients: build ## The client libraries of Python, and a web page's on Node, against the server
	@$(release_build) --product worker
	@exec Tests/clients/run.sh

conversations: setup-tests build ## The scripted conversations, on a virtual clock and in real time
	@scripts/test-swift.sh --filter ConversationTests
	@exec Tests/clients/run.sh -v test_conversations.py

test-browser: build setup-tests ## The web page in Chromium, and the parts of parley.js on Node
	@exec Tests/browser/run.sh

test-long: build setup-tests ## Tests that take minutes: fuzzing, a breaking network in Chromium, the page in Firefox
	@$(MAKE) fuzz SECONDS=60
	@exec Tests/browser/run.sh --long -m long

test-metrics: build setup-tests ## promtool reads /metrics
	@exec Tests/metrics/run.sh

test-tls: build ## Protocols, ciphers, tickets, certificates, as `openssl s_client` sees them
	@exec Tests/tls/run.sh

test-vad: setup-tests ## Voice activity against Silero's ONNX model, over recordings in noise
	@exec Tests/vad/run.sh

test-conformance: build setup-tests ## The Autobahn suite without its largest messages
	@Tests/conformance/run.sh short || [[ $$? == 77 ]]

conformance: build setup-tests ## The whole Autobahn suite, 517 cases; needs Python 2.7
	@Tests/conformance/run.sh || [[ $$? == 77 ]]

fuzz: setup ## Fuzz every target for SECONDS=60; TARGET=name INPUT=file runs one input again
	@$(strict) SECONDS_EACH=$(SECONDS) TARGET=$(TARGET) INPUT=$(INPUT) COVERAGE=$(COVERAGE) \
		scripts/fuzz.sh

test-fuzz: ## Fuzz each target for 15 s, unless the code is as in the last fuzzed state
	@IF_CHANGED=1 $(MAKE) fuzz SECONDS=15

load: setup-tests ## Every load scenario at a reduced size, one table; ARGS="--output DIR"
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@exec scripts/load.sh $(ARGS)

claims: setup-tests ## Claims about Node, FastAPI, … measured into LoadTests/CLAIMS.md: 37 min; ARGS=--quick: 5
	@scripts/setup-peers.sh nio
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@exec .build/release/parley-load claims --document LoadTests/CLAIMS.md \
		--output .build/claims $(ARGS)

check-peers: ## Whether the claims' peers all serve the same part of the protocol
	@scripts/setup-peers.sh nio
	@exec .venv-peers/bin/python LoadTests/peers/check_agents.py

chaos: build ## What callers notice of crashes, restarts, lost networks: a table; ARGS="--cases kill"
	@exec scripts/chaos.sh $(ARGS)

calls: build ## What telephone calls cost: CPU, memory, lag; ARGS="--calls 500 --carrier asterisk"
	@exec scripts/calls.sh $(ARGS)

operators: build ## What an operator's page costs a server with many sessions; ARGS="--sessions 10000"
	@exec scripts/operators.sh $(ARGS)

floods: build ## What floods of every kind of message take from other connections; ARGS="--only audio"
	@exec scripts/floods.sh $(ARGS)

outages: build ## What outages cost records and webhooks: a table; ARGS="--cases kill,away"
	@exec scripts/outages.sh $(ARGS)

bench-network: build ## Voice on a bad network: gaps and delay, Opus against PCM; ARGS="--parts codecs"
	@exec scripts/network.sh $(ARGS)

bench-recogniser: build ## Users of the recogniser on a core, and the first turns; ARGS="--users 8,16"
	@exec scripts/bench-parts.sh recogniser $(ARGS)

bench-replies: build ## Encoding replies on a busy core, and the phrase cache; ARGS="--sessions 100"
	@exec scripts/bench-parts.sh replies $(ARGS)

bench-voices: setup-tests ## The embedded voices: words mistaken, first sound, CPU, sessions a core
	@$(release_build) --product parley
	@$(release_build) --product voice-table
	@exec scripts/bench-parts.sh voices $(ARGS)

bench-languages: setup languages ## The recognisers in five languages: words mistaken, languages found, CPU; ARGS="--step 5"
	@$(release_build) --product language-table
	@exec scripts/bench-languages.sh $(ARGS)

bench-echo: setup ## Parley's echo against a raw TCP echo, Bun, picows, Node, FastAPI; ARGS=--quick
	@scripts/setup-peers.sh
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@ulimit -n "$$(ulimit -H -n)"; exec .build/release/parley-load echo $(ARGS)

bench-handshakes: setup ## Parley's handshakes, plain and over TLS, beside Bun, nginx, HAProxy; ARGS=--quick
	@scripts/setup-peers.sh
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@ulimit -n "$$(ulimit -H -n)"; exec .build/release/parley-load handshakes $(ARGS)

bench-instructions: setup ## User-space instructions per echoed message, beside a loop in C
	@scripts/setup-peers.sh
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@exec scripts/count-instructions.sh

bench-memory: setup ## User space per idle WebSocket; ARGS="--connections 5000"
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@ulimit -n "$$(ulimit -H -n)"; exec .build/release/parley-load memory $(ARGS)

turn-table: setup-tests ## When turns end on recordings with pauses, in every mode: a table
	@scripts/setup-apt.sh speech
	@scripts/setup-recordings.sh
	@$(release_build) --product turn-table
	@exec .build/release/turn-table $(ARGS)

phoneme-table: setup ## The natural voice's phonemes beside its own front end's: 2,000 sentences
	@$(release_build) --product phoneme-table
	@exec scripts/phoneme-table.sh $(ARGS)

nod-table: setup-tests ## Which nods stop a reply, and how soon interruptions do: a table
	@$(release_build) --product turn-table
	@exec .build/release/turn-table --nods $(ARGS)

room-table: setup-tests ## What music, others' speech and a keyboard do to a reply: a table
	@scripts/setup-apt.sh speech
	@$(release_build) --product turn-table
	@exec .build/release/turn-table --room $(ARGS)

million: setup ## A million sessions in one process: bytes and CPU each; ARGS="--counts 10000,50000"
	@$(release_build) --product session-census
	@exec .build/release/session-census $(ARGS)

bench-voice: setup-tests ## Speaking sessions against bare decode + voice activity, and delays
	@$(release_build) --product parley
	@$(release_build) --product parley-load
	@ulimit -n "$$(ulimit -H -n)"; exec .build/release/parley-load voice $(ARGS)

js: ## Pack parley.js, the client of web pages, into .build/js
	@exec scripts/js.sh

## Source ----------------------------------------------------------------------------------

format: ## Rewrite the Swift files in the house format
	@swift format --in-place --parallel --recursive $(swift_sources)

lint: setup-tests ## Check format and style of the Swift files and of the scripts
	@swift format lint --strict --parallel --recursive $(swift_sources)
	@shellcheck --external-sources --source-path=scripts scripts/*.sh Tests/*/*.sh .ci/run

clean: ## Remove what was built; models and virtual environments stay
	rm -rf .build .build-* .build_*

distclean: clean ## Remove everything that set-up and build made
	rm -rf models .venv-* .tls

.PHONY: help run build install js cluster calls chaos floods operators outages bench-network bench-recogniser bench-replies bench-voices bench-languages brain setup \
	models voice languages smart-turn setup-tests environments test check test-swift test-scripts unit sim test-clients \
	conversations claims check-peers \
	test-browser test-long test-metrics test-tls test-conformance test-vad conformance fuzz load bench-echo bench-handshakes \
	bench-instructions bench-memory bench-voice million turn-table phoneme-table nod-table room-table format lint clean distclean
