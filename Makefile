# Every tool has a pinned version: Go tools in build/<tool>/go.mod, code generators in the tool lines of go.mod.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/toold-dev/toold/daemon.version=$(VERSION)
GOLANGCI := go tool -modfile=build/lint/go.mod golangci-lint
BUF := go tool -modfile=build/buf/go.mod buf
FUZZTIME ?= 60s
# Without gRPC's trace pages the linker can drop unused methods, which saves 5 MB of the binary. All builds use the tag, so that they share the build cache.
export GOFLAGS := $(strip $(GOFLAGS) -tags=grpcnotrace)

.PHONY: help
help: ## show the targets (the default)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  make %-16s %s\n' "$$name" "$$text"; done

.PHONY: build
build: ## bin/toold, one static binary, and its small helper bin/toold-sandbox
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/toold ./cmd/toold
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/toold-sandbox ./cmd/toold-sandbox

.PHONY: run
run: build ## start a daemon to keep: store ./data, workspace ./workspace
	@mkdir -p workspace
	exec bin/toold serve --data data --workspace workspace --listen-http :7131

.PHONY: demo
demo: build sources agent ## the main job from beginning to end on a real daemon, in under a minute
	go run ./test/demo -page docs/tutorials/approval.md

.PHONY: sources
sources: # the external parts of the demo: servers from npm, the Python SDK with Debian's grpcio
	scripts/sources.sh

.PHONY: agent
agent: # bin/agent, the example agent that the demo runs
	CGO_ENABLED=0 go build -C examples/agent/go -trimpath -o ../../../bin/agent .

.PHONY: session
session: build sources agent ## write the session that docs/tutorials/approval.md shows
	go run ./test/demo -page docs/tutorials/approval.md -update

.PHONY: test
test: ## the landing check: all tests with the race detector; the last lines say what ran
	scripts/test.sh

.PHONY: nightly
nightly: ## the long run: 2,000 kills, 131,072 calls, power loss and failing disks at every write, fuzzing for FUZZTIME (60s) each
	scripts/nightly.sh $(FUZZTIME)

.PHONY: shake
shake: ## all tests COUNT times (3) on 1, 2 and 8 processors, beside other load; PACKAGES names some of them
	scripts/shake.sh

.PHONY: lint
lint: ## golangci-lint (with gofmt and go vet), buf lint, buf breaking, tidy modules of examples
	$(GOLANGCI) run ./...
	$(BUF) lint
	scripts/breaking.sh $(BUF)
	for d in examples/embedded examples/agent/go; do (cd $$d && GOFLAGS=-mod=mod go mod tidy -diff); done

.PHONY: bench
bench: ## toold against a bare grpc-go server, alternating; prints ratios and CPU per call
	go run ./test/bench

.PHONY: bench-plugins
bench-plugins: ## what each plugin adds to the server CPU of a read-only call
	go run ./test/bench -plugins

.PHONY: generate
generate: ## generate the Go code of proto/ and the OpenAPI document with the pinned tools
	$(BUF) generate
	@mkdir -p bin
	$(BUF) build -o bin/image.binpb
	go run ./server/http/openapi/generate bin/image.binpb server/http/openapi/openapi.json

.PHONY: check-generated
check-generated: generate ## fail when the committed generated code is not what generate makes
	@changed=$$(git status --porcelain --untracked-files=all -- '*.pb.go' '*_pb.ts' '*_pb2*.py' '*/openapi.json*'); \
	if [[ -n $$changed ]]; then printf 'generated code is not as committed; run make generate and commit:\n%s\n' "$$changed" >&2; exit 1; fi
	scripts/need.sh node=nodejs npm protoc=protobuf-compiler /usr/include/google/protobuf/duration.proto=libprotobuf-dev
	web/build.sh -check

.PHONY: pictures
pictures: ## take the pictures of the console again: docs/pictures, and all of them in bin/console
	scripts/console.sh pictures
	for p in inbox run command policy; do cp bin/console/$$p-light.png docs/pictures/$$p.png; done

.PHONY: console
console: ## build web/console.zip, the web console that the daemon embeds
	scripts/need.sh node=nodejs npm protoc=protobuf-compiler /usr/include/google/protobuf/duration.proto=libprotobuf-dev
	web/build.sh

.PHONY: release
release: ## write a release to dist/: make release VERSION=v0.1.0, or on a commit with such a tag
	@[[ -z $$(git status --porcelain) ]] || { echo "commit first: a release is a commit" >&2; exit 1; }
	scripts/need.sh git python3 node=nodejs npm dpkg-deb=dpkg protoc=protobuf-compiler grpc_python_plugin=protobuf-compiler-grpc \
		/usr/include/google/protobuf/duration.proto=libprotobuf-dev /usr/lib/python3/dist-packages/setuptools=python3-setuptools \
		/usr/lib/python3/dist-packages/wheel=python3-wheel
	rm -rf dist
	cd build/release && go run . all -root ../.. -version $(VERSION) -to ../../dist

.PHONY: proto-image
proto-image: ## write the protos of a final version to proto/releases, to compare later versions with: VERSION=v0.1.0
	@[[ "$(VERSION)" =~ ^v[0-9]+\.[0-9]+\.[0-9]+$$ ]] || { echo "VERSION=$(VERSION): want a final version such as v0.1.0" >&2; exit 1; }
	@mkdir -p proto/releases
	$(BUF) build --exclude-source-info -o proto/releases/$(patsubst v%,%,$(VERSION)).binpb

.PHONY: image-lock
image-lock: ## choose the newest Debian packages for the image: writes build/release/image.lock
	cd build/release && go run . lock -root ../..

.PHONY: clean
clean: ## remove what build and release made; data and workspace stay
	rm -rf bin dist
