# leakrig: what there is to do. `make` alone lists it.

NAME    ?= watch-then-delete
CLUSTER ?= auto
VARIANT ?=
ARGS    ?=
REPEATS ?= 1
COUNT   ?= 6
SOAK    ?= 16m
RUNS    ?= runs
WHAT    ?= installed source warm goless

.DEFAULT_GOAL := help
.PHONY: help build scenario node-image example simulate doctor quick test test-embedded test-kind-smoke test-kind test-nightly test-all attack selfcheck selfcheck-nightly soak fuzz nightly track-record fresh bench lint release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/leakrig, static, so that pods can run it
	CGO_ENABLED=0 go build -o bin/leakrig ./cmd/leakrig

scenario: build ## run a scenario: NAME=watch-then-delete [CLUSTER=kind] [VARIANT=leaky,fixed] [ARGS=...]
	bin/leakrig run $(NAME) --cluster $(CLUSTER) $(if $(VARIANT),--variant $(VARIANT)) $(ARGS)

node-image: build ## build the node image for kind from upstream modules (Linux, root)
	bin/leakrig node-image build

example: build ## write the example of a run into docs/examples: RUN=runs/NAME/TIME NAME=watch-then-delete
	for f in html svg markdown; do bin/leakrig report $(RUN) --format $$f --output docs/examples/$(NAME).$$(echo $$f | sed s/markdown/md/) >/dev/null || exit 1; done
	go test -count=1 -run Examples ./reports

simulate: ## the judgement's simulations at their full size, without the race detector (half an hour or more)
	go test -tags nightly -count=1 -timeout 60m -v -run 'Alarm|Shapes|Calibration|Explained|Sustained|HintsDecide|PowerCurve' ./checks

doctor: build ## tell what this machine can do, what is missing, and what to type
	bin/leakrig doctor

quick: ## unit tests, without attacks, simulations, and scripts of the command line
	internal/test.sh quick

test: ## linters, unit tests, and a smoke test on a real kube-apiserver and in Chromium
	internal/test.sh test

test-embedded: ## every other test on the embedded control plane, and the long scripts
	internal/test.sh embedded

test-kind-smoke: ## watch-then-delete as a pod on kind
	internal/test.sh kind-smoke

test-kind: ## every test on kind, with docker and podman
	internal/test.sh kind

test-nightly: ## race detector, fuzzing, repeats, large fleets, reproducible images [STEPS='fuzz healthy']
	internal/test.sh nightly

test-all: ## all of them
	for tier in test kind-smoke embedded kind nightly; do internal/test.sh $$tier || exit 1; done

attack: ## the attacks of SECURITY.md: hostile servers, profiles, files and neighbours
	internal/test.sh attack

selfcheck: build ## leaks of known size and look-alikes on this machine: REPEATS=1
	bin/leakrig selfcheck --repeats $(REPEATS)

selfcheck-nightly: ## the same, each leak and look-alike 100 times (some five hours)
	$(MAKE) selfcheck REPEATS=100

soak: ## a soak of thousands of rounds, killed ten times, observed by a second leakrig: SOAK=16m
	LEAKRIG_SOAK=$(SOAK) go test -tags e2e -count=1 -v -timeout 3h -run 'TestSoak$$' ./internal/e2e

fuzz: ## every fuzz target for FUZZTIME=1m each
	internal/fuzz.sh

nightly: build ## every scenario of the library, one after another, with their page and history; prunes old runs
	bin/leakrig run --all --prune --cluster $(CLUSTER) $(ARGS)

track-record: ## update docs/track-record.md from the newest runs of the catalogue's scenarios: RUNS=runs
	go run ./internal/trackrecord $(RUNS)

fresh: ## what a new user types, timed, with empty caches: WHAT='installed source warm goless scenario tutorial nightly test'
	internal/fresh.sh $(WHAT)

bench: ## what the rig costs: benchmarks for benchstat, what grows with what, post beside hey and wrk, exec beside kubectl exec on kind
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./profiles ./checks ./load ./reports ./catalogue
	LEAKRIG_FLEET_SIZE=1000 go test -tags 'e2e bench' -count=1 -v -timeout 30m -run 'PostCost|OpenLoadCost|KindExecCost|Scale$$|DiffAgainstPprof|ReportOpensAtOnce|Fleet$$|FleetPods' ./internal/e2e

lint: ## linters, pinned in internal/tools; go vet of the subjects with each modfile; the workflows
	internal/lint.sh
	internal/vet-subjects.sh

release: ## static binaries, images and checksums in dist/: [VERSION=v1.2.3]
	internal/release.sh

clean: ## remove bin and dist; run directories and the cache stay
	rm -rf bin dist
