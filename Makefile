# hg-amalgam: `make help` lists the targets. Everything is built in build/ and
# rust/target; downloads that outlive a `make clean` are in $(CACHE).

ifneq ($(BUILD),)

# the same in a copy, of a tree that cannot be written: make BUILD=DIR TARGET
GOALS := $(or $(MAKECMDGOALS),help)
.PHONY: copy $(GOALS)
$(GOALS): copy
	@$(MAKE) -C "$$BUILD" BUILD= $@
copy:
	@mkdir -p "$$BUILD"
	@tar -cf - --exclude=./.git --exclude=./build --exclude=./rust/target --exclude='*.so' . | \
	  tar -xf - -C "$$BUILD" && chmod -R u+w "$$BUILD"
export BUILD

else

HG = 7.2.4
FLAVOUR =
PYTHON = python3
# the program that is tested as git, if it is not the first in PATH
GIT =
# tests at a time
JOBS = 2

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hg-amalgam
VENV := build/venv-$(HG)$(FLAVOUR)
# the shell expands it, so that the tree may lie below any name
export TREE := $(CURDIR)
BIN := "$$TREE"/$(VENV)/bin
SDIST := $(CACHE)/mercurial-$(HG)
CBINDGEN := $(CACHE)/cbindgen-0.29.4/bin/cbindgen
CARGO_FUZZ := $(CACHE)/cargo-fuzz-0.13.1/bin/cargo-fuzz
CARGO_DENY := $(CACHE)/cargo-deny-0.20.2/bin/cargo-deny
NEWCOMER := $(CACHE)/newcomer-$(HG)
GIT_LFS_VERSION := 3.4.1
AZURITE := $(CACHE)/azurite-3.35.0
VERSITYGW := $(CACHE)/versitygw-1.8.0/versitygw
GIT_LFS := $(CACHE)/git-lfs-$(GIT_LFS_VERSION)/git-lfs
CINNABAR := $(CACHE)/git-cinnabar-0.7.5/bin/git-cinnabar
# the clients of `make clients`; that of dulwich is in tests/requirements.txt
GO_GIT := 5.19.3
ISOMORPHIC_GIT := 1.44.11
JGIT := 7.8.1.202611041320-r
PYGIT2 := 1.21.0
ASYNCSSH := 2.24.1
# the hosts of `make hosts`
KLAUS := 3.0.1
GERRIT := 3.12.0
GITEA := 1.26.0
HGGIT := build/venv-hg-git/bin/hg
PERF_VENV := build/venv-perf
DOCS_VENV := build/venv-docs
WHEEL_VENV := build/venv-wheel
WHEEL_PYTHON := "$$TREE"/$(WHEEL_VENV)/bin/python3
T_OUTPUT := build/t-$(HG)$(FLAVOUR)
HEADER := rust/capi/include/amalgam.h

CARGO := cargo
IN_RUST := cd rust &&
# a file or directory for commands that run elsewhere
absolute = $(if $(filter /%,$1),$1,"$$TREE"/$1)
export CARGO_TARGET_DIR ?= $(CURDIR)/rust/target
ifneq ($(GIT),)
export PATH := $(CURDIR)/build/git:$(PATH)
endif
# the venv's packages and nothing of the caller's, whatever he exports
unexport PYTHONPATH PYTHONUNBUFFERED PYTHONSAFEPATH HGRCPATH HGPLAIN

MAKEFLAGS += --no-print-directory --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:

.PHONY: help
help: ## list the targets
	@echo 'hg-amalgam, for Mercurial $(HG). Users only need: pip install .'
	@echo
	@sed -n 's/^\([a-zA-Z%-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	  sed 's/%/VERSION/' | while IFS='|' read -r name what; do \
	  printf '  %-16s %s\n' "$$name" "$$what"; done

.PHONY: local
local: $(VENV)/.ready ## build in place, for the Mercurial in build/venv-VERSION
	@$(BIN)/python3 setup.py -q build_ext --inplace

.PHONY: clean
clean: ## remove everything that was built here
	rm -rf build dist rust/target *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f hgext3rd/amalgam/core/_core*.so hgext3rd/amalgam/COMMIT
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: demo
demo: local ## export, serve, clone and push to a generated repository, with real git
	@rm -rf build/demo
	$(BIN)/python3 contrib/demo/demo.py --hg $(BIN)/hg --keep build/demo

# a folder of tests; git's name of the room receive is push
ROOM =
TESTED = $(addprefix tests/,$(ROOM:push=receive))
.PHONY: test
test: $(if $(ROOM),pytest,rust-lint rust-test header-check python-lint pytest t) ## everything, for the Mercurial in HG; ROOM=receive: one folder of tests
	@echo 'all tests passed with Mercurial $(HG)$(FLAVOUR)'

.PHONY: fast
fast: local python-lint ## the part of it that takes less than 20 seconds
	$(IN_RUST) $(CARGO) fmt --all --check
	$(BIN)/python3 -m pytest -m 'not slow and not torture'

.PHONY: header
header: $(CBINDGEN) ## write rust/capi/include/amalgam.h from rust/capi/src
	$(CBINDGEN) --quiet --config rust/capi/cbindgen.toml --output $(HEADER) rust/capi

.PHONY: config-page
config-page: $(VENV)/.ready ## write the tables of docs/configuration.rst from the package
	$(BIN)/python3 contrib/configpage.py docs/configuration.rst

.PHONY: format
format: $(VENV)/.ready ## format Rust and Python
	$(IN_RUST) $(CARGO) fmt --all
	$(BIN)/ruff check -q --select I --fix .
	$(BIN)/ruff format -q .

# the same tests against another Mercurial: what is not Python is tested once
test-hg-%: ## the tests of the extension, with another Mercurial
	@$(MAKE) HG=$* pytest t

.PHONY: test-hg-rust
test-hg-rust: ## the same with a Mercurial that is built with Rust
	@$(MAKE) FLAVOUR=-rust pytest t

ODD = 30
# those who receive hg's bundles, besides HG: `make HG=6.9.5 local` makes one
RECEIVERS = $(filter-out $(VENV)/bin/python3,$(wildcard build/venv-[67].*/bin/python3))
# random histories that are pushed: all of them are PUSHES=1000 PUSHES_BY_BOTH=200
PUSHES = 60
PUSHES_BY_BOTH = 30
# and those after which git, git-cinnabar and stock hg pull
PUSHES_PULLED = 10
# commits that are drawn from git's grammar
DRAWN = 1000
# random histories for hg-git: all of them are HGGIT_EXPORTS=1000
HGGIT_EXPORTS = 30
HGGIT_IMPORTS = 30
HGGIT_LISTED = 30
ALTERNATIONS = 5
HGGIT_MOVES = 5
HGGIT_TURNS = 5
# directories of git repositories, and how many commits of each are pushed
GIT_HISTORIES =
GIT_COMMITS = 2000
.PHONY: oracle
oracle: local $(CINNABAR) $(HGGIT) ## compare ids, metadata and pushes with git-cinnabar, ids with hg-git, bundles with stock hg, clone from bundles; CORPORA=DIR: its *.hg, too; GIT_HISTORIES="DIR ..."
	@cd tests && $(BIN)/python3 -m oracle --cinnabar $(CINNABAR) --odd $(ODD) \
	  $(if $(CORPORA),--corpora $(call absolute,$(CORPORA))) \
	  --keep "$$TREE"/build/oracle --json "$$TREE"/build/oracle.json
	@cd tests && $(BIN)/python3 -m oracle.hgbundles --cinnabar $(CINNABAR) --odd $(ODD) \
	  $(if $(CORPORA),--corpora $(call absolute,$(CORPORA))) \
	  $(RECEIVERS:%=--receiver "$$TREE"/%) --json "$$TREE"/build/oracle-hgbundles.json
	@cd tests && $(BIN)/python3 -m oracle.pushes --cinnabar $(CINNABAR) --random $(PUSHES) \
	  --both $(PUSHES_BY_BOTH) --commits $(GIT_COMMITS) \
	  --pulled $(PUSHES_PULLED) $(foreach it,$(RECEIVERS),--receiver "$$TREE"/$(dir $(it))hg) \
	  $(foreach dir,$(GIT_HISTORIES),--git $(call absolute,$(dir))) \
	  --json "$$TREE"/build/oracle-pushes.json
	@cd tests && $(BIN)/python3 -m oracle.hggit --hggit $(call absolute,$(HGGIT)) \
	  --exports $(HGGIT_EXPORTS) --imports $(HGGIT_IMPORTS) --listed $(HGGIT_LISTED) \
	  --alternations $(ALTERNATIONS) --moves $(HGGIT_MOVES) --turns $(HGGIT_TURNS) \
	  --answers "$$TREE"/build/oracle-hggit --json "$$TREE"/build/oracle-hggit.json
	@cd tests && $(BIN)/python3 -m oracle.drawn --commits $(DRAWN) \
	  $(foreach it,$(RECEIVERS),--client "$$TREE"/$(dir $(it))hg) \
	  --keep "$$TREE"/build/oracle-drawn --json "$$TREE"/build/oracle-drawn.json

CLIENTS := build/clients
NODE_MODULES := $(CACHE)/isomorphic-git-$(ISOMORPHIC_GIT)/node_modules
JARS := $(CACHE)/jgit-$(JGIT)
.PHONY: clients
clients: local $(VENV)/.clients-$(PYGIT2)-$(ASYNCSSH) $(CLIENTS)/go-git-$(GO_GIT) $(CLIENTS)/jgit-$(JGIT) $(NODE_MODULES) ## clone, fetch and push with dulwich, JGit, go-git, libgit2 and isomorphic-git; needs go, JDK, mvn, npm; ONLY=JGit
	@cd tests && $(BIN)/python3 -m clients --go-git "$$TREE"/$(CLIENTS)/go-git-$(GO_GIT) \
	  --jgit "$(JARS)/*:$$TREE/$(CLIENTS)/jgit-$(JGIT)" --isomorphic-git $(NODE_MODULES) \
	  $(if $(ONLY),--only "$(ONLY)")

HOSTS := build/hosts
.PHONY: hosts
hosts: local $(HOSTS)/klaus-$(KLAUS)/bin/klaus $(HOSTS)/gerrit-$(GERRIT) $(HOSTS)/gitea-$(GITEA)/gitea ## replicate to klaus, Gerrit and Gitea, and work there with hg; needs mvn, JDK 25, go, ssh; JAVA=PROGRAM
	@cd tests && $(BIN)/python3 -m hosts --klaus "$$TREE"/$(HOSTS)/klaus-$(KLAUS)/bin/klaus \
	  --gerrit "$$TREE"/$(HOSTS)/gerrit-$(GERRIT) $(JAVA:%=--java %) --gitea "$$TREE"/$(HOSTS)/gitea-$(GITEA)

# a built checkout, and directories of repositories
BASE =
GIVEN =
.PHONY: oracle-travels
oracle-travels: local ## push whole git repositories with amalgam.git.push-exact, and fetch them elsewhere: one with signatures, and GIVEN="DIR ..."; CLIENTS="HG ...": stock hg, too
	@cd tests && $(BIN)/python3 -m oracle.travels --json "$$TREE"/build/oracle-travels.json \
	  $(foreach it,$(CLIENTS),--client $(call absolute,$(it))) \
	  $(foreach it,$(GIVEN),$(call absolute,$(it)))

.PHONY: fingerprints
fingerprints: local ## compare files, bundles, answers and pushes of two builds, byte by byte; BASE=DIR: a built checkout; CORPORA=DIR, GIVEN="DIR ..."
	@$(if $(BASE),,echo 'which build is the base? make fingerprints BASE=DIR' >&2; exit 2)
	@cd tests && $(BIN)/python3 -m oracle.fingerprints --base $(call absolute,$(BASE)) --odd $(ODD) \
	  $(if $(CORPORA),--corpora $(call absolute,$(CORPORA))) \
	  $(foreach dir,$(GIVEN),--given $(call absolute,$(dir))) --json "$$TREE"/build

.PHONY: torture
torture: local ## kills, full disks, hostile files, clients under load; CORPORA=DIR, ONLY="git clients"
	$(if $(ONLY),,$(BIN)/python3 -m pytest -m torture -n $(JOBS) --dist worksteal)
	@cd tests && $(BIN)/python3 -m torture --json "$$TREE"/build/torture.json \
	  $(if $(CORPORA),--corpora $(call absolute,$(CORPORA))) $(if $(ONLY),--only "$(ONLY)")

# Stable Rust is enough. Of each target so many seconds; TARGETS="chunk ..." are some of them.
SECONDS = 60
.PHONY: fuzz
fuzz: $(VENV)/.fuzz $(CARGO_FUZZ) local ## hostile bytes for each parser; SECONDS=N each, TARGETS=...; needs a C++ compiler
	@cd tests && $(BIN)/python3 -m fuzz --cargo-fuzz $(CARGO_FUZZ) --seconds $(SECONDS) \
	  --json $(CURDIR)/build/fuzz.json $(TARGETS)

# Ten minutes on 2 cores. One who has git-cinnabar or hg-git names it: CINNABAR=FILE, HGGIT=FILE.
# PASSES is how often everything is measured. What else `bench` can do: contrib/perf/README.rst.
PASSES = 5
PERF := "$$TREE"/build/perf
# what hg-git has to do, and by what is told how cost grows
PERF_SLOW = $(if $(CORPORA),$(firstword $(PERF_ON)),realistic:changesets=500)
PERF_SIZES = 5000 10000 20000 40000
PERF_TABLES = 10000 100000
PERF_ON = $(if $(CORPORA),$(foreach file,$(wildcard $(CORPORA)/*.hg),$(call absolute,$(file))),realistic:changesets=2000)
BENCH = cd contrib/perf && "$$TREE"/$(PERF_VENV)/bin/python3 -m bench
.PHONY: perf
perf: local $(PERF_VENV)/.ready $(CINNABAR) $(HGGIT) ## measure and compare: build/perf/report.html; CORPORA=DIR: on its *.hg bundles
	@$(BENCH) run export export-nothing git-bundle hg-bundle -i time -i memory \
	  -m amalgam=$(BIN)/hg -m hg=$(BIN)/hg -m git-cinnabar=cinnabar:$(CINNABAR) \
	  -m fast-export=$(BIN)/hg -m git=$(shell command -v git) \
	  $(PERF_ON:%=-r %) --passes $(PASSES) --cache $(PERF) -o $(PERF)/peers.json
	@$(BENCH) run export -i time -i memory -m amalgam=$(BIN)/hg -m hg-git=$(call absolute,$(HGGIT)) \
	  -r $(PERF_SLOW) \
	  --passes 3 --cache $(PERF) -o $(PERF)/hg-git.json
	@$(BENCH) run export -i instructions -i time -m amalgam=$(BIN)/hg \
	  $(patsubst %,-r merges:changesets=%,$(PERF_SIZES)) \
	  --passes 3 --cache $(PERF) -o $(PERF)/scaling.json
	@$(BENCH) tables index node-lookup -m amalgam=$(BIN)/hg \
	  $(patsubst %,-r linear:changesets=%$(comma)files=20,$(PERF_TABLES)) \
	  --limits 8.0-5,15.0-3 --cache $(PERF) -o $(PERF)/tables.json
	@$(BENCH) report $(PERF_RESULTS) -o $(PERF)/report.html
	@$(BENCH) keep $(PERF_RESULTS) --tree "$$TREE" --history $(PERF_HISTORY)

.PHONY: perf-history
perf-history: $(PERF_VENV)/.ready ## draw what `make perf` measured over the commits, and where it changed
	@$(BENCH) history --history $(PERF_HISTORY) -o $(PERF)/history.html

PERF_HISTORY = $(CACHE)/perf-history
comma := ,
PERF_RESULTS = $(patsubst %,$(PERF)/%.json,peers hg-git scaling tables)
.PHONY: perf-docs
perf-docs: ## put what `make perf` measured last into docs/performance.rst
	@$(BENCH) explanation $(PERF_RESULTS) --page "$$TREE"/docs/performance.rst

# An hour, and 3 GB below build/perf. index.rst there is for docs/decisions/prefault.rst.
.PHONY: perf-index
perf-index: local $(PERF_VENV)/.ready ## warm and cold starts, up to 2,000,000 changesets
	@$(BENCH) tables index node-lookup startup -m amalgam=$(BIN)/hg \
	  $(patsubst %,-r linear:changesets=%$(comma)files=20,10000 100000 1000000 2000000) \
	  --cache $(PERF) -o $(PERF)/index.json
	@$(BENCH) report $(PERF)/index.json -o $(PERF)/index.html
	@$(BENCH) rst $(PERF)/index.json > $(PERF)/index.rst

# Memory over time, by phase; and what allocators make of it. CORPORA=DIR as above.
PERF_MEMORY = $(PERF)/memory
.PHONY: perf-memory
perf-memory: local $(PERF_VENV)/.ready ## where the memory of an export goes
	@$(BENCH) run export -i memory -m amalgam=$(BIN)/hg \
	  $(PERF_ON:%=-r %) --passes 3 --cache $(PERF_MEMORY) -o $(PERF_MEMORY)/memory.json
	@$(BENCH) report $(PERF_MEMORY)/memory.json -o $(PERF_MEMORY)/report.html
	@for script in $(wildcard contrib/perf/allocators.py); do \
	  for copy in $(PERF_MEMORY)/runs/export-*-amalgam/repository; do \
	    $(PERF_VENV)/bin/python3 $$script "$$copy"/.hg/store \
	      --json "$$copy"/../allocators.json --plot "$$copy"/../allocators.svg || exit 1; done; done

# Hours and 10 GB: what one change costs where there are many names, and what JGit and git need
# to replicate it. 2.2.0 has the queue that grew with the square of the heads.
PERF_NAMES = 10000 50000 100000
PERF_JGITS = 2.2.0.201212191850-r 3.0.0.201306101825-r $(JGIT)
PERF_MANY = -r heads:heads=$$size -r names:names=$$size -r names-and-heads:names=$$size
PERF_MANY_OUTPUT = --cache $(PERF) -o $(PERF)/names-$$size
.PHONY: perf-names
perf-names: local $(PERF_VENV)/.ready $(PERF_JGITS:%=build/perf-jgit/%/push) ## one change among 100,000 names: exported, served, replicated
	@for size in $(PERF_NAMES); do ( \
	  $(BENCH) run start export export-nothing export-one export-deletion fetch-one fetch-first push-one -i cpu \
	    -m amalgam=$(BIN)/hg -m hg=$(BIN)/hg $(PERF_MANY) --passes $(PASSES) $(PERF_MANY_OUTPUT)-cpu.json && \
	  rm -rf $(PERF)/runs && cd "$$TREE" && \
	  $(BENCH) run export-one export-deletion -i written \
	    -m amalgam=$(BIN)/hg $(PERF_MANY) --passes 3 $(PERF_MANY_OUTPUT)-written.json && \
	  rm -rf $(PERF)/runs && cd "$$TREE" && \
	  $(BENCH) run start replicate-one replicate-nothing replicate-many replicate-seven replicate-hidden replicate-seven-hidden replicate-pulled \
	    replicate-pulled-hidden -i cpu -m amalgam=$(BIN)/hg -m git=$(shell command -v git) \
	    $(foreach jgit,$(PERF_JGITS),-m jgit-$(jgit)=jgit:"$$TREE"/build/perf-jgit/$(jgit)/push) \
	    -r names-and-heads:names=$$size --passes $(PASSES) $(PERF_MANY_OUTPUT)-replication.json && \
	  rm -rf $(PERF)/runs ) || exit 1; done
	@$(BENCH) exponents $(foreach kind,cpu written replication,$(PERF_NAMES:%=$(PERF)/names-%-$(kind).json))

build/perf-jgit/%/push: contrib/perf/jgit/Push.java contrib/perf/jgit/pom.xml
	@rm -rf $(@D)
	mvn -q -B -f contrib/perf/jgit/pom.xml dependency:copy-dependencies -Djgit=$* -DoutputDirectory="$$TREE"/$(@D)
	javac -nowarn -cp '$(@D)/*' -d $(@D) $<
	@printf '#!/bin/sh\nexec java -cp "%s/*:%s" Push "$$@"\n' "$$TREE"/$(@D) "$$TREE"/$(@D) > $@ && chmod +x $@

# Takes hours at low priority: not part of `test`. TESTS="test-strip.t ..." is a part of it.
.PHONY: upstream
upstream: local $(SDIST)/tests/run-tests.py ## Mercurial's own tests, with amalgam on
	@cd tests && nice -n 15 $(BIN)/python3 -m upstream --sdist $(SDIST) --hg $(BIN)/hg \
	  --output "$$TREE"/build/upstream --json "$$TREE"/build/upstream.json $(TESTS)

# git is built elsewhere, as 2.55.0 by `make NO_RUST=1`. TESTS="t5551 ..." is a part of it.
GIT_SOURCE =
.PHONY: git-tests
git-tests: local ## git's own tests of HTTP, with amalgam as the server; GIT_SOURCE=DIR: git, built; needs Apache
	@$(if $(GIT_SOURCE),,echo 'where is git built? make git-tests GIT_SOURCE=DIR' >&2; exit 2)
	@cd tests && nice -n 15 $(BIN)/python3 -m gittests --source $(call absolute,$(GIT_SOURCE)) \
	  --hg $(BIN)/hg --output "$$TREE"/build/git-tests --json "$$TREE"/build/git-tests.json $(TESTS)

# Warnings are errors, links to nothing among them. Addresses elsewhere are in external-links.txt.
.PHONY: docs
docs: $(DOCS_VENV)/.ready ## the documentation as a site: build/docs/index.html
	$(DOCS_VENV)/bin/sphinx-build -q -W --keep-going -d build/docs-doctrees -c docs/site . build/docs

# hg-git's tests are in its source distribution. TESTS="test-pull.t ..." is a part of them.
HGGIT_SOURCES := $(CACHE)/hg_git-1.2.0
HGGIT_DULWICH := build/hggit-dulwich-$(HG)-0.22.8
.PHONY: hggit-tests
hggit-tests: local $(HGGIT_SOURCES)/PKG-INFO $(HGGIT_DULWICH)/dulwich ## hg-git's own tests, with amalgam in its place
	@cd tests && nice -n 15 $(BIN)/python3 -m hggittests --sources $(HGGIT_SOURCES) --hg $(BIN)/hg \
	  --dulwich "$$TREE"/$(HGGIT_DULWICH) \
	  --output "$$TREE"/build/hggit-tests-$(HG) --json "$$TREE"/build/hggit-tests-$(HG).json $(TESTS)

.PHONY: deny
deny: $(CARGO_DENY) ## check licences and sources of the Rust dependencies
	$(IN_RUST) $(CARGO_DENY) --workspace check licenses bans sources

# The database is fetched by git. OFFLINE=yes: it is a clone of RustSec's advisory-db, with
# a FETCH_HEAD, in ~/.cargo/advisory-dbs. The directory has a name that an error tells.
OFFLINE =
.PHONY: deny-advisories
deny-advisories: $(CARGO_DENY) ## known weaknesses of the Rust dependencies, from RustSec's database
	$(IN_RUST) $(CARGO_DENY) $(if $(OFFLINE),--offline )--workspace check advisories

# Needs no container: zig links for the old glibc.
.PHONY: sdist wheel
sdist: $(WHEEL_VENV)/.ready ## a source distribution with all crates, which builds offline: dist/*.tar.gz
	@rm -f dist/*.tar.gz
	$(WHEEL_PYTHON) contrib/wheel/sdist.py build/sdist dist

wheel: sdist ## one wheel for CPython 3.10 and later, on every Linux since glibc 2.17: dist/*.whl
	@rm -f dist/*.whl
	$(WHEEL_PYTHON) contrib/wheel/manylinux.py dist/*.tar.gz build/wheel dist

# An environment for each CPython of this machine with each Mercurial of PyPI. ROOTS="DIR ..."
# adds roots of debootstrap, which need root; OLDER=FILE is the wheel of the version before.
# All of it takes hours on 2 cores. A part: WHEEL_OPTIONS="--python 3.13 --hg 7.2.4", or --no-t.
WHEEL_OPTIONS =
.PHONY: test-wheel
test-wheel: $(if $(wildcard dist/*.whl),,wheel) $(WHEEL_VENV)/.ready ## install the wheel where there is no compiler, and run the .t tests there
	$(WHEEL_PYTHON) contrib/wheel/environments.py dist/*.whl build/test-wheel --sources $(CACHE) \
	  $(if $(ROOTS),--root $(foreach root,$(ROOTS),$(call absolute,$(root)))) \
	  $(if $(OLDER),--older $(call absolute,$(OLDER))) $(WHEEL_OPTIONS) --json build/test-wheel.json

# The parts of `test`.

.PHONY: rust-lint
rust-lint:
	$(IN_RUST) $(CARGO) fmt --all --check
	$(IN_RUST) $(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings

.PHONY: rust-test
rust-test:
	$(IN_RUST) $(CARGO) test --quiet --locked --workspace

.PHONY: header-check
header-check: $(CBINDGEN)
	@mkdir -p build
	@$(CBINDGEN) --quiet --config rust/capi/cbindgen.toml rust/capi > build/amalgam.h
	@cmp build/amalgam.h $(HEADER) || { echo "run 'make header'" >&2; exit 1; }

.PHONY: python-lint
python-lint: $(VENV)/.ready
	$(BIN)/ruff format -q --check .
	$(BIN)/ruff check -q .
	$(BIN)/mypy

.PHONY: git
git:
	@rm -rf build/git
	@$(if $(GIT),mkdir -p build/git && ln -s $(call absolute,$(GIT)) build/git/git && git --version)

.PHONY: pytest
pytest: local git $(NEWCOMER)/.ready
	$(BIN)/python3 -m pytest -m 'not torture' -n $(JOBS) --dist worksteal $(TESTED)
	@$(BIN)/python3 tests/project/test_prose.py

# run-tests.py is not in the wheel. It wants to be started as python3, its output directory
# to exist, and PYTHONUNBUFFERED unset. Where others use the machine, a test may take long.
.PHONY: t
t: local git $(SDIST)/tests/run-tests.py
	@mkdir -p $(T_OUTPUT)
	cd tests && $(BIN)/python3 $(SDIST)/tests/run-tests.py --with-hg=$(BIN)/hg -j$(JOBS) --json \
	  --timeout 1800 --outputdir "$$TREE"/$(T_OUTPUT) test-amalgam-*.t
	@! grep '"result": "skip"' $(T_OUTPUT)/report.json || { echo 'not in tests/SKIPS' >&2; exit 1; }

# What they need.

# the scripts of a venv name the place where it was made; a copy of the tree needs its own
ifneq ($(or $(shell cat $(VENV)/.ready 2>/dev/null),$(TREE)),$(TREE))
.PHONY: $(VENV)/.ready
endif
$(VENV)/.ready: tests/requirements.txt contrib/perf/requirements.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -r tests/requirements.txt
	$(INSTALL_HG)
	@case "$$TREE" in *" "*) $(START_BY_SH) ;; esac
	@printf '%s\n' "$$TREE" > "$$($(BIN)/python3 -c 'import site; print(site.getsitepackages()[0])')/amalgam-tree.pth"
	@printf '%s\n' "$$TREE" > $@

# The kernel takes no space in the path that a script names in its first line. pip works
# around that for all scripts but hg.
START_BY_SH = cd $(VENV)/bin && \
  printf "\#!/bin/sh\n'''exec' \"%s\" \"\$$0\" \"\$$@\"\n' '''\n" "$$PWD/python3" > hg.sh && \
  tail -n +2 hg >> hg.sh && chmod +x hg.sh && mv hg.sh hg

# there are wheels for Linux on x86-64; `make fuzz` says what is missing elsewhere
$(VENV)/.fuzz: tests/fuzz/requirements.txt $(VENV)/.ready
	-$(BIN)/pip install -q --disable-pip-version-check --only-binary :all: -r $<
	@touch $@

# Stands in for the package registry in roots of tests. Where there is none for the system's
# Python, tests say so.
$(NEWCOMER)/.ready:
	-/usr/bin/python3 -m venv --clear $(@D)/venv && $(@D)/venv/bin/pip download -q \
	  --disable-pip-version-check --only-binary :all: -d $(@D) mercurial==$(HG) cffi gunicorn && touch $@

ifeq ($(FLAVOUR),-rust)
# setup.py of Mercurial expects cargo's output where cargo puts it by itself
INSTALL_HG = env -u CARGO_TARGET_DIR $(BIN)/pip install -q --disable-pip-version-check --no-binary mercurial \
  --config-settings=--global-option=--rust mercurial==$(HG)
else
INSTALL_HG = $(BIN)/pip install -q --disable-pip-version-check mercurial==$(HG)
endif

$(SDIST)/tests/run-tests.py: | $(VENV)/.ready
	@mkdir -p $(CACHE)
	$(BIN)/pip download -q --disable-pip-version-check --no-deps --no-binary mercurial \
	  --dest $(CACHE) mercurial==$(HG)
	tar -xzf $(CACHE)/mercurial-$(HG).tar.gz -C $(CACHE)
	@touch $@

$(HGGIT_SOURCES)/PKG-INFO: | $(VENV)/.ready
	@mkdir -p $(CACHE)
	$(BIN)/pip download -q --disable-pip-version-check --no-deps --no-binary :all: \
	  --dest $(CACHE) hg-git==1.2.0
	tar -xzf $(CACHE)/hg_git-1.2.0.tar.gz -C $(CACHE)
	@touch $@

$(HGGIT_DULWICH)/dulwich: | $(VENV)/.ready
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --target $(HGGIT_DULWICH) \
	  dulwich==0.22.8

$(CBINDGEN):
	@mkdir -p build
	CARGO_TARGET_DIR="$$TREE"/build/cbindgen $(CARGO) install --quiet --locked --debug \
	  --version 0.29.4 --root $(CACHE)/cbindgen-0.29.4 cbindgen
	rm -rf build/cbindgen

$(CARGO_FUZZ):
	@mkdir -p build
	CARGO_TARGET_DIR=$(CURDIR)/build/cargo-fuzz $(CARGO) install --quiet --locked --debug \
	  --version 0.13.1 --root $(CACHE)/cargo-fuzz-0.13.1 cargo-fuzz
	rm -rf build/cargo-fuzz

$(CARGO_DENY):
	@mkdir -p build
	CARGO_TARGET_DIR="$$TREE"/build/cargo-deny $(CARGO) install --quiet --locked \
	  --version 0.20.2 --root $(CACHE)/cargo-deny-0.20.2 cargo-deny
	rm -rf build/cargo-deny

$(WHEEL_VENV)/.ready: contrib/wheel/requirements.txt
	$(PYTHON) -m venv --clear $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

$(PERF_VENV)/.ready: contrib/perf/requirements.txt
	$(PYTHON) -m venv --clear $(PERF_VENV)
	$(PERF_VENV)/bin/pip install -q --disable-pip-version-check -r contrib/perf/requirements.txt
	@touch $@

$(DOCS_VENV)/.ready: docs/site/requirements.txt
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install -q --disable-pip-version-check -r $< mercurial==$(HG)
	@touch $@

# hg-git does not work with the newest Mercurial
build/venv-hg-git/bin/hg:
	$(PYTHON) -m venv --clear build/venv-hg-git
	build/venv-hg-git/bin/pip install -q --disable-pip-version-check \
	  setuptools==65.5.0 mercurial==7.1.2 hg-git==1.2.0 dulwich==0.22.8

.PHONY: git-lfs
git-lfs: $(GIT_LFS) ## build git-lfs, with go, for the tests that need it

$(GIT_LFS):
	GOBIN=$(@D) GOFLAGS=-modcacherw go install github.com/git-lfs/git-lfs/v3@v$(GIT_LFS_VERSION)

.PHONY: s3-server
s3-server: $(VERSITYGW) ## build an S3 server, with go, for the tests that need it

$(VERSITYGW):
	GOBIN=$(@D) GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

.PHONY: azure-server
azure-server: $(AZURITE)/node_modules/.bin/azurite-blob ## install an emulator of Azure's store, with npm, for the tests that need it

$(AZURITE)/node_modules/.bin/azurite-blob:
	npm install --silent --no-audit --no-fund --prefix $(AZURITE) azurite@3.35.0

$(VENV)/.clients-$(PYGIT2)-$(ASYNCSSH): $(VENV)/.ready
	$(BIN)/pip install -q --disable-pip-version-check pygit2==$(PYGIT2) asyncssh==$(ASYNCSSH)
	@touch $@

$(CLIENTS)/go-git-$(GO_GIT): tests/clients/programs/gogitsteps.go
	@rm -rf $(CLIENTS)/go && mkdir -p $(CLIENTS)/go && cp $< $(CLIENTS)/go
	cd $(CLIENTS)/go && go mod init amalgam.example/clients && \
	  go get github.com/go-git/go-git/v5@v$(GO_GIT) && go build -o ../$(@F) .

$(CLIENTS)/jgit-$(JGIT): tests/clients/programs/JgitSteps.java $(JARS)
	javac -cp '$(JARS)/*' -d $@ $<
	@touch $@

$(JARS):
	mvn -q -B -f tests/clients/pom.xml dependency:copy-dependencies -Djgit=$(JGIT) -DoutputDirectory=$@.new
	@mv $@.new $@

$(NODE_MODULES):
	npm install --silent --no-audit --no-fund --prefix $(@D) isomorphic-git@$(ISOMORPHIC_GIT)

$(HOSTS)/klaus-$(KLAUS)/bin/klaus:
	$(PYTHON) -m venv --clear $(HOSTS)/klaus-$(KLAUS)
	$(HOSTS)/klaus-$(KLAUS)/bin/pip install -q --disable-pip-version-check klaus==$(KLAUS)

$(HOSTS)/gerrit-$(GERRIT):
	mvn -q -B -f tests/hosts/pom.xml dependency:copy-dependencies -Dgerrit=$(GERRIT) -DoutputDirectory=$(CURDIR)/$@.new
	@mv $@.new $@

# without the front end, which needs npm
$(HOSTS)/gitea-$(GITEA)/gitea:
	@mkdir -p $(@D) && rm -rf $(@D)/static
	cp -r "$$(go mod download -json code.gitea.io/gitea@v$(GITEA) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" $(@D)/static
	chmod -R u+w $(@D)/static
	cd $(@D)/static && go build -tags 'sqlite sqlite_unlock_notify' -o ../gitea .

# git runs it by its other name
$(CINNABAR):
	@mkdir -p build
	CARGO_TARGET_DIR="$$TREE"/build/git-cinnabar $(CARGO) install --quiet --locked \
	  --version 0.7.5 --root $(CACHE)/git-cinnabar-0.7.5 git-cinnabar
	ln -sf git-cinnabar $(@D)/git-remote-hg
	rm -rf build/git-cinnabar

endif
