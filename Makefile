# leakrig: what there is to do. `make` alone lists it.

NAME    ?= watch-then-delete
CLUSTER ?= auto
VARIANT ?=
ARGS    ?=
REPEATS ?= 1

.DEFAULT_GOAL := help
.PHONY: help build scenario node-image doctor selfcheck selfcheck-nightly fuzz nightly bench test quick lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/leakrig
	go build -o bin/leakrig ./cmd/leakrig

scenario: build ## run a scenario: NAME=watch-then-delete [CLUSTER=kind] [VARIANT=leaky,fixed] [ARGS=...]
	bin/leakrig run $(NAME) --cluster $(CLUSTER) $(if $(VARIANT),--variant $(VARIANT)) $(ARGS)

node-image: build ## build the node image for kind from upstream modules (Linux, root)
	bin/leakrig node-image build

doctor: build ## tell what this machine can do, what is missing, and what to type
	bin/leakrig doctor

test: ## all tests, those against real parts included (builds kube-apiserver at first)
	internal/test.sh

selfcheck: build ## leaks of known size and look-alikes on this machine: REPEATS=1
	bin/leakrig selfcheck --repeats $(REPEATS)

selfcheck-nightly: ## the same, each leak and look-alike 100 times (some five hours)
	$(MAKE) selfcheck REPEATS=100

fuzz: ## every fuzz target for FUZZTIME=1m each
	internal/fuzz.sh

nightly: build ## every scenario of the library, one after another, and their history
	bin/leakrig run --all --cluster $(CLUSTER) $(ARGS)

bench: ## what an exec costs the rig, beside a loop of kubectl exec on the same kind cluster
	go test -tags 'e2e bench' -count=1 -v -timeout 30m -run KindExecCost ./internal/e2e

quick: ## unit tests only: under a minute
	go test ./...

lint: ## gofmt and go vet, also in the modules of the subjects
	internal/lint.sh

clean: ## remove the binary; run directories and the cache stay
	rm -rf bin
