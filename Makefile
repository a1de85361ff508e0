# make build    the programs and their library, in target/release
# make test     every check and every test, with all of their set-up
# make lib      libmillstream for C, shared and static, in target/c
# make wheel    the Python package, with the program in it, in target/wheels; and a wheel for each FREE_THREADED Python, those of
#              python3.14t to python3.16t that are installed by default
# make demo     every measurement in short, real pipelines and Python too: a table of verdicts and a page, in two minutes
# make check-models, check-asan, check-tsan, check-fuzz
#              parts of make test: the ring under a model checker, ring and pipe under two sanitizers, corrupt segments
#              from a fuzzer; the last three need a nightly compiler
# make check-python  part of it: the Python package; PYTHONS="python3 python3.13" for more than one, LIVES=10000 by default
# make check-free-threaded  whether the package compiles for Python without its lock; needs no such Python, not part of make test
# make check-cpython  CPython's own tests of multiprocessing over our pipes; two minutes, not part of make test
# make corpus   a hundred real pipelines, bare and under 'run': whether any is slower; 20 minutes, see docs/benchmarks.md
# make rivals   other ways between two processes beside ours, measured; some minutes, see docs/benchmarks.md
# make mount-rivals  other file systems beside a mount of ours, measured with 1 GiB; half an hour, see docs/benchmarks.md
# make check-rivals  their tests; neither is part of make test
# make soak     MINUTES=10 by default: lives of pipes in which everything happens at random, every byte accounted for
# make storm    STORM_SECONDS=120 by default: sixty-four writers and as many readers of one FIFO that come, go and are killed at
#              random, ours and plain programs, every record accounted for
# make fuzz-formats  SECONDS=10 for each by default: the formats and notations of networks against a fuzzer; needs a nightly
#              compiler, and some minutes to build; not part of make test
# make check-mount  a mount under random calls for 20 minutes, killed 1000 times, and a gigabyte through it; a part is in make test
# make check-miri  not part of it: the ring under Miri, where that is installed
# make check-aarch64  whether everything compiles for AArch64, and the tests of ring and pipe there, emulated; not part of make test
# make check-cargo-c  the C library as cargo-c installs it, against 'make install-lib'; some minutes the first time, not part of make test
# make deb      Debian packages, in target/packages: millstream, libmillstream0, libmillstream-dev
# make dist     an archive with an installer, for other systems with the same or a later glibc, in target/packages
# make check-packages  both of them in clean roots, as a newcomer; a part of make test. SUITE=trixie: of another suite of this archive
# make check-systems  the tests of 'run' with the C libraries of Debian 11 and 13, in roots of their packages; half an hour the first
#              time, not part of make test. SUITES="bullseye trixie sid": of these, the oldest first
# make check-oldest  whether the oldest Rust that Cargo.toml names compiles everything; not part of make test
# make site     these documents as a site, in target/site, each link checked; not part of make test
# make install  PREFIX=/usr/local by default, DESTDIR for packages; uninstall takes it away
# make install-lib  the same for libmillstream: header, libraries, manual pages, pkg-config; uninstall-lib takes it away

# What is built is looked for in target/.
unexport CARGO_TARGET_DIR
unexport CARGO_BUILD_TARGET_DIR

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
MINUTES ?= 10
STORM_SECONDS ?= 120
SECONDS ?= 10
CARGO ?= cargo
BUILD = target/release
LIBRARY = $(BUILD)/lib/millstream
# What belongs beside the program that users start: they find each other there.
PARTS = $(addprefix $(LIBRARY)/,millstream millstream-bench libmillstream_preload.so)
PRELOAD = target/preload/preload
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
C_LIBRARY = target/c
C_SOURCE = crates/capi
PYTHONS ?= python3
FREE_THREADED ?= $(notdir $(foreach version,14 15 16,$(shell command -v python3.$(version)t)))
LIVES ?= 10000
WHEELS = target/wheels
CHECK_PYTHON = env MILLSTREAM_LIVES=$(LIVES) scripts/check-python $(WHEELS) $(PYTHONS) $(FREE_THREADED)
MATURIN = target/maturin/bin/maturin build --release --quiet --manifest-path crates/python/Cargo.toml --out $(WHEELS)
WHEEL_DATA = target/wheel-data
# A package by itself, built beside everything else. Aeron wants a newer CMake than most distributions have.
RIVALS = CMAKE="$(CURDIR)/target/cmake/bin/cmake" $(CARGO)
RIVALS_OPTIONS = --manifest-path rivals/Cargo.toml --target-dir target/rivals

# Packages in two parts, each of such as ask the same of what they depend on: those of the first find compiled what 'make build' has
# compiled, though the second has tokio, and a library for random tests.
UPPER = -p millstream $(addprefix -p millstream-,bench buffer command fs net transforms)
LOWER = $(addprefix -p millstream-,capi conformance pattern pipe ring run sys)

.PHONY: all build lib install-lib uninstall-lib demo corpus rivals mount-rivals test install uninstall clean setup-build setup-test setup-rivals check-rivals
.PHONY: soak storm fuzz-formats check-models check-asan check-tsan check-fuzz check-miri
.PHONY: site setup-site wheel setup-wheel check-python check-free-threaded check-cpython check-cargo-c check-mount deb dist check-packages
SUITES ?= bullseye trixie
.PHONY: check-systems check-oldest check-aarch64
.PHONY: check-format check-words check-figures check-publish check-lints check-licences check-docs check-tests

all: build

setup-build:
	@scripts/setup build

setup-test:
	@scripts/setup test

setup-rivals:
	@scripts/setup rivals

# The library inside other programs and the program that a run begins with are built by themselves: they must not get the features of dependencies
# that the whole program needs. The small one takes the name of the whole one, which it finds in lib/millstream, with the one that measures.
build: setup-build
	$(CARGO) build --release -p millstream -p millstream-bench -p millstream-capi
	$(CARGO) build --profile preload -p millstream-preload -p millstream-launch --target-dir target/preload
	@mkdir -p $(LIBRARY)
	@install -m 755 $(BUILD)/millstream $(BUILD)/millstream-bench $(LIBRARY)/
	@install -m 755 $(PRELOAD)/millstream-launch $(BUILD)/millstream
	@install -m 755 $(PRELOAD)/libmillstream_preload.so $(LIBRARY)/libmillstream_preload.so
	@install -m 644 crates/preload/unbuffered.rb $(LIBRARY)/unbuffered.rb

# The shared library is linked here, of the whole static one: rustc gives its own no symbol versions.
# A program that is linked or started meanwhile finds the old library or the new one, and no part of one.
lib: build
	@mkdir -p $(C_LIBRARY)
	@install -m 644 $(BUILD)/libmillstream_capi.a $(C_LIBRARY)/new.a
	$(CC) -shared -o $(C_LIBRARY)/new.so -Wl,-soname,libmillstream.so.0 -Wl,--gc-sections \
		-Wl,--version-script,$(C_SOURCE)/libmillstream.map -Wl,-z,defs -Wl,-z,now -Wl,-O1 -s \
		-Wl,--whole-archive $(C_LIBRARY)/new.a -Wl,--no-whole-archive -lgcc_s -lpthread -lm -ldl -lc
	@mv -f $(C_LIBRARY)/new.a $(C_LIBRARY)/libmillstream.a
	@mv -f $(C_LIBRARY)/new.so $(C_LIBRARY)/libmillstream.so.$(VERSION)
	@ln -sfn libmillstream.so.$(VERSION) $(C_LIBRARY)/new.link && mv -fT $(C_LIBRARY)/new.link $(C_LIBRARY)/libmillstream.so.0
	@ln -sfn libmillstream.so.0 $(C_LIBRARY)/new.link && mv -fT $(C_LIBRARY)/new.link $(C_LIBRARY)/libmillstream.so

setup-wheel:
	@scripts/setup wheel

# The program is in the wheel as a script, and what belongs to it where the program looks for it.
wheel: build setup-wheel
	@[ -x target/maturin/bin/python ] || python3 -m venv target/maturin
	@target/maturin/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
	@rm -rf $(WHEEL_DATA) $(WHEELS)
	@mkdir -p $(WHEEL_DATA)/scripts $(WHEEL_DATA)/data/lib/millstream
	@install -m 755 $(BUILD)/millstream $(WHEEL_DATA)/scripts/millstream
	@install -m 755 $(PARTS) $(WHEEL_DATA)/data/lib/millstream/
	@install -m 644 $(LIBRARY)/unbuffered.rb $(WHEEL_DATA)/data/lib/millstream/
	$(MATURIN)
	@for python in $(FREE_THREADED); do $(MATURIN) --interpreter "$$python" || exit 1; done
	@ls $(WHEELS)/*.whl

setup-site:
	@scripts/setup site

site: setup-site
	scripts/make-site target/mdbook/bin/mdbook

# Status 3: a cell failed its checks, on a machine with one CPU for instance. The table says which, and why. Not everyone may mount:
# then the program says why, and the other measurements count.
demo: build
	$(BUILD)/millstream bench --quick --no-history --json $(BUILD)/demo.json --html $(BUILD)/demo.html || [ $$? -eq 3 ]
	@echo
	$(BUILD)/millstream bench file --only unbound,increment,gunzip,zstd --size 64M --pairs 5 --no-history || \
		echo "No mount was measured: see above."
	@$(MAKE) --no-print-directory wheel >$(BUILD)/demo-wheel.log 2>&1 && scripts/demo-python $(WHEELS) || \
		echo "There is no row of Python: its package could not be made or measured (see above, and $(BUILD)/demo-wheel.log)"
	@echo "Try it on your own: $(BUILD)/millstream run -c 'your | pipeline'"
	@echo "All samples: $(BUILD)/demo.json. The page: $(BUILD)/demo.html"

# Status 1: one is slower, which the table says.
corpus: build
	@scripts/setup corpus
	PATH="$(CURDIR)/target/coreutils/bin:$$PATH" $(BUILD)/millstream bench corpus --json $(BUILD)/corpus.json || [ $$? -eq 1 ]

rivals: setup-rivals
	$(RIVALS) build --release $(RIVALS_OPTIONS)
	target/rivals/release/millstream-rivals --json target/rivals/rivals.json
	@echo "All samples: target/rivals/rivals.json. More: target/rivals/release/millstream-rivals --help"

mount-rivals: build
	@scripts/setup mount-rivals
	PATH="$(CURDIR)/target/mount-rivals/bin:$$PATH" $(BUILD)/millstream bench file --size 1G --json $(BUILD)/mount-rivals.json
	@echo "All samples: $(BUILD)/mount-rivals.json"

# The last ones use little more than one CPU each, and measure nothing.
test: check-format check-words check-figures check-publish check-lints check-licences check-docs check-tests
	+$(MAKE) --no-print-directory -j 2 --output-sync=target check-packages check-models check-asan check-tsan check-fuzz
	@echo "All checks and tests passed."

check-format: setup-test
	$(CARGO) fmt --all --check

# English, not Markdown: lines, sentences and words that the glossary has replaced. And the order in which files can be read.
check-words: setup-test
	scripts/check-words
	scripts/check-cycles

# The tables of measured figures, against the files that they are made from.
check-figures: setup-test
	scripts/make-figures --check

# Manifests, and whether cargo packs each crate that is published; nothing is compiled.
check-publish: setup-test
	scripts/check-publish $(CARGO)

# Of the profile that the tests are built with, whose libraries in C are compiled once for all three.
check-lints: setup-test
	$(CARGO) clippy --release --all-targets --workspace --exclude millstream-preload --exclude millstream-launch -- -D warnings
	$(CARGO) clippy --profile preload -p millstream-preload -p millstream-launch --target-dir target/preload -- -D warnings

check-licences: setup-test
	$(CARGO) deny check licenses bans sources
	scripts/check-advisories $(CARGO)

check-docs: setup-test
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --no-deps --document-private-items

# With those of the Python package, for which there is a target of its own too.
check-tests: setup-test build lib wheel
	scripts/run-tests $(CARGO) '$(UPPER)' '$(LOWER)' $(CHECK_PYTHON)

check-python: setup-test wheel
	$(CHECK_PYTHON)

# There is no stable ABI without the lock, so a version is named. A directory of its own: the other wheel stays compiled.
check-free-threaded: setup-wheel
	@mkdir -p target/free-threaded
	@printf '%s\n' implementation=CPython version=3.14 shared=true target_abi=CPython-free_threaded-3.14 pointer_width=64 \
		build_flags=Py_GIL_DISABLED suppress_build_script_link_lines=false >target/free-threaded/python
	PYO3_CONFIG_FILE="$(CURDIR)/target/free-threaded/python" $(CARGO) check -p millstream-python --target-dir target/free-threaded

check-packages: setup-test deb dist
	scripts/check-packages $(VERSION) $(SUITE)

check-systems: setup-test
	scripts/check-systems $(CARGO) $(SUITES)

# Of rustup, which installs it first. The one that tests are run with may be newer.
OLDEST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
check-oldest: setup-build
	rustup toolchain install --profile minimal $(OLDEST)
	$(CARGO) +$(OLDEST) check --locked --workspace --exclude millstream-preload --exclude millstream-launch --target-dir target/oldest
	$(CARGO) +$(OLDEST) check --locked --profile preload -p millstream-preload -p millstream-launch --target-dir target/oldest

# Five networks, 120 seconds each: none, identity, in place, and two that change the length.
check-mount: setup-test build
	MILLSTREAM_RANDOM_SECONDS=120 MILLSTREAM_LIVES=1000 MILLSTREAM_GIGABYTES=1 $(CARGO) test --release -p millstream \
		--test mount_random --test mount_calls --test mount_kills --test mount_large -- --test-threads 1 --nocapture

check-cpython: wheel
	scripts/check-cpython $(WHEELS) $(PYTHONS)

check-cargo-c: setup-test lib
	scripts/check-cargo-c $(CARGO)

check-aarch64:
	@scripts/setup aarch64
	scripts/check-aarch64 $(CARGO)

check-models: setup-test
	scripts/check-ring models $(CARGO)

check-asan: setup-test
	scripts/check-ring asan $(CARGO)

check-tsan: setup-test
	scripts/check-ring tsan $(CARGO)

check-fuzz: setup-test
	scripts/check-ring fuzz $(CARGO)

soak: setup-test
	$(CARGO) build --release -p millstream-conformance --bin millstream-soak
	target/release/millstream-soak --seconds $$(($(MINUTES) * 60))

storm: setup-test
	$(CARGO) build --release -p millstream-conformance --bin millstream-storm
	target/release/millstream-storm --seconds $(STORM_SECONDS)

fuzz-formats: setup-test
	FUZZ_SECONDS=$(SECONDS) scripts/check-ring formats $(CARGO)

check-miri: setup-test
	scripts/check-ring miri $(CARGO)

check-rivals: setup-rivals
	$(CARGO) fmt --manifest-path rivals/Cargo.toml --check
	$(RIVALS) clippy --release --all-targets $(RIVALS_OPTIONS) -- -D warnings
	$(RIVALS) test --release $(RIVALS_OPTIONS)

# Manual pages and completions are the program's own words.
INSTALLED = $(DESTDIR)$(PREFIX)
install: build
	install -d "$(INSTALLED)/bin" "$(INSTALLED)/lib/millstream" "$(INSTALLED)/share/man/man1" \
		"$(INSTALLED)/share/bash-completion/completions" "$(INSTALLED)/share/zsh/site-functions" \
		"$(INSTALLED)/share/fish/vendor_completions.d"
	install -m 755 $(PRELOAD)/millstream-launch "$(INSTALLED)/bin/millstream"
	install -m 755 $(PARTS) "$(INSTALLED)/lib/millstream/"
	install -m 644 $(LIBRARY)/unbuffered.rb "$(INSTALLED)/lib/millstream/"
	umask 022; $(LIBRARY)/millstream man --all "$(INSTALLED)/share/man/man1"
	umask 022; $(LIBRARY)/millstream completions bash >"$(INSTALLED)/share/bash-completion/completions/millstream"
	umask 022; $(LIBRARY)/millstream completions zsh >"$(INSTALLED)/share/zsh/site-functions/_millstream"
	umask 022; $(LIBRARY)/millstream completions fish >"$(INSTALLED)/share/fish/vendor_completions.d/millstream.fish"

install-lib: lib
	install -d "$(INSTALLED)/include" "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(INSTALLED)/share/man/man3" "$(INSTALLED)/share/man/man7"
	install -m 644 $(C_SOURCE)/include/millstream.h "$(INSTALLED)/include/"
	install -m 644 $(C_LIBRARY)/libmillstream.so.$(VERSION) $(C_LIBRARY)/libmillstream.a "$(DESTDIR)$(LIBDIR)/"
	ln -sf libmillstream.so.$(VERSION) "$(DESTDIR)$(LIBDIR)/libmillstream.so.0"
	ln -sf libmillstream.so.0 "$(DESTDIR)$(LIBDIR)/libmillstream.so"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(VERSION)|' \
		$(C_SOURCE)/millstream.pc.in >"$(DESTDIR)$(LIBDIR)/pkgconfig/millstream.pc"
	install -m 644 $(C_SOURCE)/man/*.3 "$(INSTALLED)/share/man/man3/"
	install -m 644 $(C_SOURCE)/man/*.7 "$(INSTALLED)/share/man/man7/"

uninstall-lib:
	rm -f "$(INSTALLED)/include/millstream.h" "$(DESTDIR)$(LIBDIR)/pkgconfig/millstream.pc" \
		"$(DESTDIR)$(LIBDIR)/libmillstream.a" "$(DESTDIR)$(LIBDIR)/libmillstream.so" \
		"$(DESTDIR)$(LIBDIR)/libmillstream.so.0" "$(DESTDIR)$(LIBDIR)/libmillstream.so.$(VERSION)" \
		$(addprefix "$(INSTALLED)"/share/man/man3/,$(notdir $(wildcard $(C_SOURCE)/man/*.3))) \
		$(addprefix "$(INSTALLED)"/share/man/man7/,$(notdir $(wildcard $(C_SOURCE)/man/*.7)))

uninstall:
	rm -f "$(INSTALLED)/bin/millstream" "$(INSTALLED)/share/man/man1/millstream.1" "$(INSTALLED)/share/man/man1/"millstream-*.1 \
		"$(INSTALLED)/share/bash-completion/completions/millstream" "$(INSTALLED)/share/zsh/site-functions/_millstream" \
		"$(INSTALLED)/share/fish/vendor_completions.d/millstream.fish"
	rm -rf "$(INSTALLED)/lib/millstream"

deb: build lib
	scripts/package deb $(VERSION)

dist: build lib
	scripts/package dist $(VERSION)

clean:
	$(CARGO) clean
