# `make demo` and `make test` do all set-up by themselves, on Debian 12 with Go, as root.
TOOLS       := $(CURDIR)/.tools
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0

.PHONY: help
help: ## say what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.PHONY: build
build: ## build bin/reconfigure
	go build -o bin/reconfigure ./cmd/reconfigure

.PHONY: tools
tools: ## install what demo and test need: packages, Terraform with its provider, the nodes' image
	go run ./lab/tools/cmd/install

.PHONY: demo
demo: build tools ## show a cluster of namespaces grow and shrink on this machine (KEEP=1: leave it up)
	go run ./lab/cmd/eiffel-lab demo $(if $(KEEP),--keep)

.PHONY: lint
lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'gofmt wants changes in:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

.PHONY: fuzz
fuzz: ## feed the parsers what nobody would write, for a few seconds each
	@# So many inputs, and not so many seconds: Go fails a run whose time ends in the middle of one.
	go test -run '^$$' -fuzz FuzzParse -fuzztime 200000x ./reconfigure/nodeset
	go test -run '^$$' -fuzz FuzzParse -fuzztime 20000x ./reconfigure/config
	go test -run '^$$' -fuzz FuzzParseConsole -fuzztime 50000x ./reconfigure/ssh

.PHONY: test
test: tools lint fuzz ## run every test, the end-to-end ones on labs of their own
	@# What takes longest begins first: the labs, side by side, since they wait half of the time; the rest goes on beside them.
	go run $(GOTESTSUM) --format pkgname-and-test-fails -- -race -timeout 55m -count 1 -p 5 ./lab/e2e/... ./...

.PHONY: golden
golden: ## write the expected files of the tests anew; the diff is the change in behaviour
	go test ./cmd/reconfigure ./reconfigure/plan ./reconfigure/config ./reconfigure/terraform ./reconfigure/ansible ./ansible -update

.PHONY: bench
bench: ## run the benchmarks
	go test -run '^$$' -bench . ./reconfigure/... ./lab/labcloud/... ./lab/machine/...

.PHONY: clean
clean: ## remove what was built and installed into this checkout
	rm -rf bin $(TOOLS)
