# leakrig: what there is to do. `make` alone lists it.

NAME    ?= watch-then-delete
CLUSTER ?= auto
VARIANT ?=
ARGS    ?=

.DEFAULT_GOAL := help
.PHONY: help build scenario test quick lint fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/leakrig
	go build -o bin/leakrig ./cmd/leakrig

scenario: build ## run a scenario: NAME=watch-then-delete [CLUSTER=embedded] [VARIANT=leaky,fixed] [ARGS=...]
	bin/leakrig run $(NAME) --cluster $(CLUSTER) $(if $(VARIANT),--variant $(VARIANT)) $(ARGS)

test: ## all tests, those against a real kube-apiserver included (builds it at first)
	internal/test.sh

quick: ## unit tests only: under a minute
	go test ./...

lint: ## gofmt and go vet, also in the modules of the subjects
	internal/lint.sh

clean: ## remove the binary; run directories and the cache stay
	rm -rf bin
