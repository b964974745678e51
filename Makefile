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
SCENE ?= job
demo: scene build tools ## show a cluster of namespaces on this machine (SCENE=job|reimage|resize|failure|all; KEEP=1: leave it up)
	go run ./lab/cmd/eiffel-lab demo --scene '$(SCENE)' $(if $(KEEP),--keep)

.PHONY: scene
scene: # an unknown SCENE is said before anything is installed
	@go run ./lab/cmd/eiffel-lab demo --scene '$(SCENE)' --check

.PHONY: lint
lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'gofmt wants changes in:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

# FUZZ is in proportion to the number of inputs. They are counted, not timed: Go fails a run whose time ends in the middle of an input.
FUZZ := 20

.PHONY: fuzz
fuzz: ## feed the parsers what nobody would write (FUZZ=1: a twentieth of it)
	go test -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZ)0000x ./reconfigure/nodeset
	go test -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZ)000x ./reconfigure/config
	go test -run '^$$' -fuzz FuzzParseConsole -fuzztime $(FUZZ)000x ./reconfigure/ssh

# What needs neither root nor what `make tools` installs. Tests of other packages that need it are skipped, and counted as skipped.
CHECKED = $$(go list ./... | grep -v -e /lab/e2e/ -e /eiffel/ansible -e /slurmscripts)

.PHONY: check
check: lint ## run the tests that need neither root nor tools; those that passed and did not change are not repeated
	go run $(GOTESTSUM) --format pkgname-and-test-fails --hide-summary skipped -- -short $(CHECKED)

.PHONY: test
test: FUZZ = 1
test: tools lint fuzz ## run every test, the end-to-end ones on labs of their own
	go run $(GOTESTSUM) --format pkgname-and-test-fails --raw-command -- go run ./lab/cmd/alltests

.PHONY: golden
golden: ## write the expected files of the tests anew; the diff is the change in behaviour
	go test ./cmd/reconfigure ./reconfigure/plan ./reconfigure/config ./reconfigure/terraform ./reconfigure/ansible ./ansible -update

.PHONY: bench
bench: tools ## measure ratios on this machine, and write docs/performance.md (ONLY=name,…: measure some, write nothing; SIZES='--many 10': see --help)
	go run ./bench $(if $(ONLY),--only '$(ONLY)') $(SIZES)

.PHONY: microbench
microbench: ## run Go's benchmarks of single packages
	go test -run '^$$' -bench . ./reconfigure/... ./lab/labcloud/... ./lab/machine/...

.PHONY: clean
clean: ## remove what was built and installed into this checkout
	rm -rf bin $(TOOLS)
