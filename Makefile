# Everything here sets up what it needs by itself (scripts/setup.sh).
.PHONY: build test check nightly demo bench clean

build: ## the command, bin/pinboard
	@go build -o bin/pinboard ./cmd/pinboard

test: ## all tests; ends with "N passed, N failed"
	@scripts/test.sh

check: ## formatting, vet, tidy, staticcheck, known vulnerabilities
	@scripts/check.sh

nightly: ## what takes longer: long fuzzing, every client release, all under the race detector
	@scripts/nightly.sh

demo: ## a node and two real workers on this machine, shown step by step
	@demo/run.sh

bench: ## Pinboard beside its peers; fails when it got dearer
	@bench/run.sh

clean: ## what the targets above made
	@rm -rf bin .cache
