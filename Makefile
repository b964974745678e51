# `make demo` and `make test` install what they need. They need Debian 12 with Go, and root.
TOOLS       := $(CURDIR)/.tools
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# One set of flags for the program, tests, linters and tools, so that each package is compiled once. The tables for
# debuggers (-w leaves them out) would be a fifth of the program. The tag leaves out the manual pages of urfave/cli, whose
# library would take a fifth of the CPU time of each start. `go test -race` needs cgo, which its callers enable.
export GOFLAGS     := -trimpath -ldflags=-w -tags=urfave_cli_no_docs
export CGO_ENABLED := 0

# The bytes depend only on the commit, the release of Go and the platform: no path of this machine, no C compiler. The version is
# the tag of the commit, or is made from the last tag and the commit; +dirty says that the code was changed. Go asks git status for
# that, so it gets an index in which the site's declaration is not compared.
.PHONY: build
build: ## build bin/reconfigure
	@index=$$(mktemp) && trap 'rm -f "$$index"' EXIT && \
	if cp "$$(git rev-parse --git-path index)" "$$index" 2>/dev/null; then \
		export GIT_INDEX_FILE="$$index"; git update-index --skip-worktree group_vars/all.yml 2>/dev/null || :; fi && \
	go build -buildvcs=auto -o bin/reconfigure ./cmd/reconfigure

.PHONY: sbom
sbom: build ## write bin/reconfigure.cdx.json: the modules in bin/reconfigure (CycloneDX)
	go tool -modfile=lab/tools/sbom/go.mod cyclonedx-gomod bin -json -std -noserial -output bin/reconfigure.cdx.json bin/reconfigure

# It needs Debian's dpkg-deb, and the modules in Go's cache; with them, no network.
ARCH ?= amd64,arm64
.PHONY: release
release: ## build dist/eiffel-VERSION: binaries, deb, rpm, apt repository (VERSION=0.3.0; KEY=…: sign with this key of GPG)
	go run -C lab/tools/release . --checkout '$(CURDIR)' --version '$(VERSION)' --key '$(KEY)' --arch '$(ARCH)'

.PHONY: tools
tools: ## install what demo and test need: packages, Terraform and its provider, the image of the nodes
	go run ./lab/tools/cmd/install

.PHONY: tools-systemd
tools-systemd: # what `tools` installs, and the images with systemd, of Debian 12 and 13, for tests only
	go run ./lab/tools/cmd/install --systemd

.PHONY: demo
SCENE ?= job
demo: scene build tools ## show a cluster of namespaces on this machine (SCENE=job|reimage|resize|failure|all; KEEP=1: leave it up)
	go run ./lab/cmd/eiffel-lab demo --scene '$(SCENE)' $(if $(KEEP),--keep)

.PHONY: scene
scene: # an unknown SCENE is reported before anything is installed
	@go run ./lab/cmd/eiffel-lab demo --scene '$(SCENE)' --check

# As root. The owner of the checkout is the worker's user. With DESTDIR the files are written below it, and systemd is
# not called.
OWNER   ?= $(shell stat --format %U .)
DESTDIR ?=
.PHONY: install-service
install-service: ## install the worker as a systemd service, which starts at boot and restarts; then declare worker: systemd
	install -d $(DESTDIR)/etc/systemd/system $(DESTDIR)/etc/polkit-1/rules.d
	sed 's/^User=eiffel$$/User=$(OWNER)/' systemd/reconfigure-worker@.service >$(DESTDIR)/etc/systemd/system/reconfigure-worker@.service
	sed 's/^User=eiffel$$/User=$(OWNER)/' systemd/reconfigure-backup@.service >$(DESTDIR)/etc/systemd/system/reconfigure-backup@.service
	cp systemd/reconfigure-backup@.timer $(DESTDIR)/etc/systemd/system/
	sed 's/"eiffel"/"$(OWNER)"/' systemd/50-reconfigure-worker.rules >$(DESTDIR)/etc/polkit-1/rules.d/50-reconfigure-worker.rules
ifeq ($(DESTDIR),)
	systemctl daemon-reload
	systemctl enable --now "$$(systemd-escape --path --template reconfigure-worker@.service '$(CURDIR)')"
endif

.PHONY: lint
lint: verify ## gofmt, vet, staticcheck, checksums of modules, known vulnerabilities
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'gofmt wants changes in:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go vet -C lab/tools/release ./...
	go run $(STATICCHECK) ./...

# The database of vulnerabilities is at vuln.go.dev. Without it only the checksums are checked.
.PHONY: verify
verify: # check the modules' checksums, and known vulnerabilities in code that is called
	go mod verify
	@echo go run $(GOVULNCHECK) ./...; \
	if said=$$(go run $(GOVULNCHECK) ./... 2>&1); then echo "$$said" | tail -n 1; \
	elif echo "$$said" | grep '^govulncheck: fetching vulnerabilities'; then echo 'NOT CHECKED for known vulnerabilities: the database does not answer'; \
	else echo "$$said"; exit 1; fi

# The number of inputs is proportional to FUZZ. A time would not do, since Go fails a run whose time ends during an
# input.
FUZZ := 20
# By default Go spends up to a minute on minimizing each input. `make lint` runs vet.
FUZZING := go test -vet off -run '^$$' -fuzzminimizetime 10x -fuzz

.PHONY: fuzz
fuzz: ## fuzz the parsers with new inputs (FUZZ=1: a twentieth of them); make test has the known ones
	$(FUZZING) FuzzParse -fuzztime $(FUZZ)0000x ./reconfigure/nodeset
	$(FUZZING) FuzzParse -fuzztime $(FUZZ)000x ./reconfigure/config
	$(FUZZING) FuzzParse -fuzztime $(FUZZ)000x ./reconfigure/gate
	$(FUZZING) FuzzParseConsole -fuzztime $(FUZZ)000x ./reconfigure/ssh
	$(FUZZING) FuzzParseResumeFile -fuzztime $(FUZZ)000x ./reconfigure/slurm
	$(FUZZING) FuzzListing -fuzztime $(FUZZ)000x ./reconfigure/slurm
	$(FUZZING) FuzzSettings -fuzztime $(FUZZ)000x ./reconfigure/slurm
	$(FUZZING) FuzzDangers -fuzztime $(FUZZ)000x ./reconfigure/slurmconf
	$(FUZZING) FuzzLines -fuzztime $(FUZZ)000x ./reconfigure/slurmconf
	$(FUZZING) FuzzFence -fuzztime $(FUZZ)000x ./reconfigure/terraform
	$(FUZZING) FuzzEvents -fuzztime $(FUZZ)000x ./reconfigure/terraform
	$(FUZZING) FuzzState -fuzztime $(FUZZ)000x ./reconfigure/terraform

# Packages with tests that need neither root nor `make tools`. Single tests in them that do are skipped, and counted as
# skipped.
CHECKED = $$(go list ./... | grep -v -e /lab/e2e/ -e /eiffel/ansible -e /slurmscripts)

.PHONY: check
check: lint ## run the tests that need neither root nor tools; results of unchanged packages are cached
	go run $(GOTESTSUM) --format pkgname-and-test-fails --hide-summary skipped -- -short $(CHECKED)

.PHONY: test
test: ## run all tests; each end-to-end test has its own lab
	$(MAKE) --jobs 2 tools-systemd lint
	go run $(GOTESTSUM) --format pkgname-and-test-fails --raw-command -- go run ./lab/cmd/alltests

.PHONY: tools-tofu
tools-tofu: tools # OpenTofu, whose build takes minutes
	go run ./lab/tools/cmd/install --tofu

.PHONY: test-tofu
test-tofu: tools-tofu releasecheck ## run the tests of package terraform and a cluster with OpenTofu, which is built first, for minutes
	TF_CLI_CONFIG_FILE= EIFFEL_TERRAFORM=$(TOOLS)/bin/tofu EIFFEL_PLUGINS=$(TOOLS)/plugins-tofu go test -count 1 ./reconfigure/terraform
	bin/releasecheck --only labcloud-tofu

.PHONY: tools-provider
tools-provider: tools # the newest version of the provider for OpenStack that is admitted
	EIFFEL_PROVIDER=3.4.0 go run ./lab/tools/cmd/install

.PHONY: test-provider
test-provider: tools-provider releasecheck ## run Terraform and a cluster with the newest provider for OpenStack, for minutes
	bin/releasecheck --only 'provider-3 labcloud-provider-3'

# Not part of `make test`: it takes hours, and installs 3.5 GB of Debian's packages. Run it before a release. The
# program is built, since `go run` does not forward SIGTERM.
.PHONY: release-check
release-check: releasecheck tools-systemd tools-tofu tools-provider tools-libvirt tools-vsphere ## run clusters on each cloud and release of Debian; installs OpenStack (3.5 GB), writes docs/how-it-works/tested.md
	go run ./lab/tools/cmd/install --openstack
	bin/releasecheck
	$(MAKE) fuzz properties
	$(MAKE) storms STORMS=300
	$(MAKE) storms STORMS=30 RACE=-race CGO_ENABLED=1

.PHONY: releasecheck
releasecheck:
	go build -o bin/releasecheck ./lab/cmd/releasecheck

.PHONY: tools-libvirt
tools-libvirt: # libvirt, QEMU, Terraform's provider for them and a disk image, which only test-libvirt needs
	go run ./lab/tools/cmd/install --libvirt

# Not part of `make test`: it takes minutes on two cores, since QEMU emulates the processor. One package runs at a
# time, since a second libvirtd does not start.
.PHONY: test-libvirt
test-libvirt: tools-libvirt ## run a cluster of virtual machines on this computer's libvirt, for minutes
	EIFFEL_LIBVIRT=1 go test -p 1 -count 1 -timeout 60m -v ./reconfigure/cloud/libvirt ./lab/e2e/libvirt

.PHONY: tools-vsphere
tools-vsphere: tools # Terraform's provider for vSphere, which only test-vsphere needs
	go run ./lab/tools/cmd/install --vsphere

# Not part of `make test`: the provider takes a minute to build on two cores, and another minute for a node that never
# reports an address.
.PHONY: test-vsphere
test-vsphere: tools-vsphere ## run Terraform with its provider for vSphere, and a cluster, on a simulated vCenter, for minutes
	EIFFEL_VSPHERE=1 go test -count 1 -v -run VSphere ./reconfigure/terraform
	EIFFEL_VSPHERE=1 go test -count 1 -timeout 60m -v ./lab/e2e/vsphere

CLOUD ?= labcloud
.PHONY: e2e
e2e: releasecheck tools ## run the cluster of release-check on one cloud (CLOUD=labcloud|openstack; RUN=Test…: some of its tests)
	$(if $(filter openstack,$(CLOUD)),go run ./lab/tools/cmd/install --openstack)
	bin/releasecheck --only '$(CLOUD)' --run '$(RUN)'

.PHONY: matrix
matrix: releasecheck tools-systemd ## run the end-to-end tests on Debian 12 and 13, and write docs/how-it-works/tested.md (ONLY='debian-13 grow': some); takes hours
	bin/releasecheck --only '$(or $(ONLY),debian-12 debian-13)'

# The tests draw the same values and play the same storms each time. New ones that fail are written to the package's
# testdata/rapid.
PROPERTIES := 3000
DRAWING = $$(go list -f '{{join .TestImports " "}} {{join .XTestImports " "}} {{.ImportPath}}' ./reconfigure/... | \
	awk '/lab\/sameseed/ && !/storm$$/ {print $$NF}')

.PHONY: properties
properties: ## check the properties of the packages with new random values (PROPERTIES=3000 of each)
	go test -short -count 1 -timeout 0 $(DRAWING) -rapid.seed=0 -rapid.checks=$(PROPERTIES)

STORMS := 5000
.PHONY: storms
storms: ## play new random storms on the simulated cluster (STORMS=5000 of each kind)
	go test $(RACE) -count 1 -timeout 0 -run Storm ./reconfigure/simulate/storm -rapid.seed=0 -rapid.checks=$(STORMS)

NIGHT := 1h
.PHONY: nightly
nightly: ## play new random storms for an hour (NIGHT=1h), count them, and print how to play a failed one again
	go run ./lab/cmd/nightly -for $(NIGHT)

.PHONY: golden
golden: ## write the golden files of the tests; the diff is the change in behaviour
	go test ./cmd/reconfigure ./reconfigure/attach ./reconfigure/explain ./reconfigure/metrics ./reconfigure/plan ./reconfigure/config ./reconfigure/terraform ./reconfigure/ansible ./reconfigure/web ./ansible -update

.PHONY: screenshots
screenshots: ## draw the pictures of the page in docs/ with Chromium, from a simulated storm
	EIFFEL_SCREENSHOTS='$(CURDIR)/docs' go test -count 1 -run TestScreenshots ./reconfigure/web

.PHONY: bench
bench: tools ## measure ratios on this machine, and write docs/how-it-works/performance.md (ONLY=name,…: measure some, write nothing; SIZES='--many 10 --release trixie': see --help)
	go run ./bench $(if $(ONLY),--only '$(ONLY)') $(SIZES)

# It needs 14 GiB of free memory.
.PHONY: bench-scale
bench-scale: tools ## measure 250, 500 and 1000 nodes with a real slurmd each, and write docs/how-it-works/scale.md (SIZES='--scale 100')
	go run ./bench --only scale $(SIZES)

.PHONY: microbench
microbench: ## run Go's benchmarks of single packages
	go test -run '^$$' -bench . ./reconfigure/... ./lab/labcloud/... ./lab/machine/...

.PHONY: clean
clean: ## remove what was built and installed in this checkout
	rm -rf bin dist $(TOOLS)
