# Two commands for everyone; `make help` lists the rest.

SUDO := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo)
DEMO_ARGS ?=

.PHONY: help run check test test-all fuzz build bench bench-memif bench-journal lab coverage docs deb image vm-image release clean

help:
	@echo "make run    build adit and run the demo: namespaces, gNB, SMF, real traffic (root)"
	@echo "make check  what a change of most rooms needs: format, lints, tidy, tests without DPDK, root or packages"
	@echo "make test   format, lints, tidy and all tests, with what is installed; says what it skipped and why"
	@echo "make test-all   what CI runs: installs the rest, then all of it with loom, Miri, fuzzing, aarch64 and licenses"
	@echo "make fuzz   every fuzz target for five minutes (SECONDS=...)"
	@echo "make bench  most benches on this machine, and the rules over memif (WIRE=none|quick|full), into docs/benchmarks"
	@echo "make bench-memif  what adit and dpdk-testpmd forward over memif, in turns, and their ratio"
	@echo "make bench-journal  the journal beside fjall (FOLDER=... on the disk to be measured)"
	@echo "make lab    the tester's own test and the short experiments on memif; writes lab-report/"
	@echo "make coverage  lines of pfcp and n4 that their tests run (cargo install cargo-llvm-cov)"
	@echo "make docs   the documents as a site with a search, in target/site"
	@echo "make deb    the Debian packages adit and adit-lab in target/packages (ARCH=arm64: for aarch64 on another processor)"
	@echo "make image  an OCI image from them, for each architecture that has a package (root)"
	@echo "make vm-image  a disk for virtual machines from the package, which cloud-init configures (root)"
	@echo "make release RELEASE=VERSION  all that is published of a release of releases.toml (root)"
	@echo "make build  release binaries in target/release"

build:
	@scripts/install.sh run
	cargo build --release --quiet --package adit --package adit-lab

# Cargo shows its progress. Measure what `make build` builds: this profile is for a short wait.
run:
	@scripts/install.sh run
	cargo build --profile demo --package adit --package adit-lab
	$(SUDO) target/demo/adit-lab demo $(DEMO_ARGS)

# Of the same features as all tests: another selection of packages compiles most crates once more.
XTASK := $(or $(CARGO_TARGET_DIR),target)/debug/xtask

# Rooms that need no library, no root and no foreign program.
CHECKED := types baseline wire pfcp rules pktio session tables store machine n4 datapath transport shared-store \
	operate testkit nrf
CHECKED := $(CHECKED:%=--package adit-%) --package xtask

check:
	cargo fmt --check
	cargo clippy --quiet $(CHECKED) --all-targets -- -D warnings
	cargo run --quiet --package xtask -- tidy
	cargo run --quiet --package xtask -- commits
	cargo test --quiet $(CHECKED)

test:
	@scripts/install.sh run
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	cargo build --quiet --workspace --bins
	$(XTASK) tidy
	$(XTASK) docs
	$(XTASK) commits
	$(XTASK) test
	cargo test --quiet --workspace --doc

test-all:
	@scripts/install.sh test
	$(MAKE) --no-print-directory test
	RUSTFLAGS="--cfg loom" cargo test --quiet --package adit-tables --target-dir target/loom --test loom_publish --test loom_charging
	$(XTASK) miri
	$(XTASK) fuzz --quick --seconds 5
	scripts/aarch64.sh test
	@if cargo deny --version >/dev/null 2>&1; then \
		cargo deny --log-level error check licenses bans sources; \
	else echo "skipped: licenses: cargo install --locked cargo-deny"; fi

# Each target for SECONDS; finds go to crates/tests/regressions, where `make test` replays them.
SECONDS ?= 300
fuzz:
	@scripts/install.sh test
	cargo xtask fuzz --seconds $(SECONDS)

# The experiments over memif: WIRE=none, quick or full
WIRE ?= quick
bench: build
	@scripts/install.sh bench || echo "without valgrind instructions are not counted"
	cargo build --release --quiet --package adit-bench
	target/release/adit-bench perf suite --wire $(WIRE) --folder docs/benchmarks > /dev/null

bench-memif: build
	$(SUDO) target/release/adit-lab saturate --sessions 100000 --rules usage

# A package of its own: fjall takes minutes to build.
FOLDER ?= target/stores
bench-journal:
	cargo run --quiet --release --manifest-path comparison/Cargo.toml --target-dir target/comparison -- $(FOLDER)

# The full experiments: LAB_ARGS= make lab
LAB_ARGS ?= --quick
lab: build
	@scripts/install.sh lab
	$(SUDO) target/release/adit-lab run $(LAB_ARGS) --out lab-report experiments/selftest.toml \
		experiments/testpmd.toml experiments/payload.toml experiments/sessions.toml \
		experiments/duplex.toml experiments/latency.toml experiments/binary-90b.toml \
		experiments/imix.toml experiments/ramp.toml experiments/churn.toml

coverage:
	cargo llvm-cov --package adit-pfcp --package adit-n4 --summary-only

docs:
	@scripts/install.sh docs
	cargo xtask docs

# Release builds whose octets do not depend on the folders of sources, in a build folder of their own: the flags differ.
PACKAGES ?= target/packages
DIST := $(or $(CARGO_TARGET_DIR),target/dist)
CARGO_HOME ?= $(HOME)/.cargo
REMAP := "--remap-path-prefix=$(CURDIR)=.", "--remap-path-prefix=$(CARGO_HOME)=cargo", "--remap-path-prefix=$(abspath $(DIST))=build"
C_REMAP := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(CARGO_HOME)=cargo -ffile-prefix-map=$(abspath $(DIST))=build
# ARCH=arm64 builds for aarch64 on another processor.
NATIVE := $(shell dpkg --print-architecture 2>/dev/null)
ARCH ?= $(NATIVE)
ifneq ($(ARCH),$(NATIVE))
CROSS := CARGO_TARGET_DIR=$(DIST) scripts/aarch64.sh
TRIPLE := aarch64-unknown-linux-gnu
endif
deb:
	@scripts/install.sh package
	CFLAGS="$(C_REMAP)" $(CROSS) cargo build --release --quiet \
		--target-dir $(DIST) --config 'target."cfg(all())".rustflags = [$(REMAP)]' $(TRIPLE:%=--target %) --package adit --package adit-lab
	rm -f $(PACKAGES)/*_$(ARCH).deb
	$(CROSS) scripts/deb.sh $(DIST)/$(TRIPLE:%=%/)release $(PACKAGES)

image:
	rm -rf $(PACKAGES)/image
	scripts/image.sh $(PACKAGES)/image $(PACKAGES)/adit_*.deb

vm-image:
	rm -f $(PACKAGES)/adit.qcow2
	scripts/vm-image.sh $(PACKAGES)/adit.qcow2 $(PACKAGES)/adit_*_$$(dpkg --print-architecture).deb

RELEASE ?=
release:
	scripts/release.sh $(RELEASE)

clean:
	cargo clean
