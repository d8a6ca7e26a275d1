# Every target does the set-up that it needs, and nothing when there is nothing to do.
# Variables: PYTHON (which interpreter makes the environment), VENV (where it goes), DOCKER_HOST (an engine of yours),
# ENGINE=oci (run and serve start no container engine, but crun or runc itself; as root, or see docs/operating/rootless.md),
# IMAGES (for images: which).

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.runs
ENGINE_SH := deploy/dev/engine.sh
OCI_SH := deploy/dev/oci.sh
# engine.sh's variable looks like a setting and is none; the daemon refuses settings that do not exist.
WITH_DOCKER = export DOCKER_HOST="$$($(ENGINE_SH) socket)";
WITH_OCI = export ASSAYD_ENGINE__KIND=oci ASSAYD_ENGINE__IMAGES_DIR="$(CURDIR)/.run/images";
ifeq ($(ENGINE),oci)
CHOSEN_IMAGES := images-oci
WITH_ENGINE = $(WITH_OCI)
IN_PLACE := $(OCI_SH) run
else ifeq ($(filter-out docker,$(ENGINE)),)
CHOSEN_IMAGES := images
WITH_ENGINE = $(WITH_DOCKER)
IN_PLACE :=
else
$(error ENGINE is $(ENGINE): say oci or docker)
endif
# Tests run on both engines where they can: as root.
TESTED_IMAGES := images $(if $(filter 0,$(shell id -u)),images-oci)
# Bytecode that is kept saves each run ten seconds and more: pytest rewrites every test that it reads.
unexport PYTHONDONTWRITEBYTECODE
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
HERE := ASSAYD_SOCKET=.run/assayd.sock ASSAYD_STATE_DIR=.run/state

.PHONY: help setup cluster cluster-stop test-cluster two-machines engine namespaces browser postgres broker object-storage runtime shellcheck images crun images-oci run serve test test-fast test-system soak day check docs bench bench-repair bench-slips bench-hints bench-generate requirements client deb release man samples stop clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## set up, validate the examples, say how they went, end the daemon (ENGINE=oci takes half the time, as root)
	@VENV=$(VENV) $(PYTHON) examples/run.py $(or $(ENGINE),docker)

serve: $(CHOSEN_IMAGES) shellcheck ## run the daemon in the foreground on .run/assayd.sock
	@$(WITH_ENGINE) export $(HERE) ASSAYD_LOG__FORMAT=console; exec $(IN_PLACE) $(BIN)/assayd

test: setup $(TESTED_IMAGES) namespaces browser postgres broker ## all tests that need a container engine at most
	@command -v sqlite3 >/dev/null || deploy/dev/packages.sh sqlite3
	@$(WITH_DOCKER) $(OCI_SH) run $(BIN)/pytest -m "not system and not cluster" -n 3 --dist loadscope

test-system: setup $(TESTED_IMAGES) namespaces browser postgres broker ## the slow tests, and those that need root or systemd; installs podman and systemd-container
	@deploy/dev/packages.sh tmux
	@deploy/dev/tools.sh .run/cache/tools
	@$(WITH_DOCKER) $(OCI_SH) run $(BIN)/pytest -m system

soak: setup images ## attempts by the minute while containers, engine and daemon are killed; MINUTES=10
	@$(WITH_DOCKER) $(BIN)/python tests/soak.py --minutes $(or $(MINUTES),10)

day: setup images ## long batches while daemon and engine go away; writes docs/operating/under-load.md
	@$(WITH_DOCKER) $(BIN)/python tests/day.py day $(if $(ITEMS),--items $(ITEMS))
	@$(WITH_DOCKER) $(BIN)/python tests/day.py lines $(if $(ITEMS),--items $(ITEMS))

test-fast: setup ## quick unit tests without a container or a database server, for the edit loop
	@$(BIN)/pytest -q -n $$(($$(nproc) * 2)) --dist loadscope -m "not postgres and not slow and not system" tests/unit

check: setup ## format, lint, types, import directions, unit tests, documentation site
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest -q -n $$(($$(nproc) * 2)) --dist loadscope tests/unit
	@mkdir -p .run/docs/pages && $(SITE) build --strict

docs: setup ## serve the documentation site on 127.0.0.1:8000; `make check` builds it
	@mkdir -p .run/docs/pages && $(SITE) serve

bench: setup images images-oci ## measure both engines, as root; write bench/results and docs/performance.md (QUICK=1: at most ten minutes)
	@-command -v bwrap >/dev/null || deploy/dev/packages.sh bubblewrap
	@$(WITH_DOCKER) export ASSAYD_ENGINE__IMAGES_DIR="$(CURDIR)/.run/images"; $(OCI_SH) run $(BIN)/python -m bench.run $(if $(QUICK),--quick)
	@$(BIN)/python -m bench.chart

bench-slips: setup images ## put slips of the hand into submissions that are right; writes bench/results/slips.json
	@$(WITH_ENGINE) $(BIN)/python -m bench.slips.run $(MOST)

bench-hints: setup $(CHOSEN_IMAGES) images-oci ## measure hints by language, worthless passes, false alarms, slips in correct code, and their cost; BENCH_REAL=folder of real programs
	@$(WITH_ENGINE) $(IN_PLACE) $(BIN)/python -m bench.slips.measure --real
	@$(WITH_ENGINE) $(IN_PLACE) $(BIN)/python -m bench.slips.run $(MOST)
	@$(WITH_OCI) $(OCI_SH) run $(BIN)/python -m bench.slips.cost

bench-repair: setup images ## have 60 broken submissions repaired, by `rules` or PROVIDERS="name …"; writes bench/results/repair.json
	@$(WITH_DOCKER) $(BIN)/python -m bench.repair.run $(PROVIDERS)

bench-generate: setup $(CHOSEN_IMAGES) ## measure prompts with scripted providers, recorded answers, and a model of your settings (PROVIDER=name)
	@$(WITH_ENGINE) $(IN_PLACE) $(BIN)/python -m bench.generate.run $(PROVIDER)
	@$(WITH_ENGINE) $(IN_PLACE) $(BIN)/python -m bench.generate.replay

cluster: setup ## run a cluster in the foreground: RabbitMQ, PostgreSQL, GATEWAYS=1 gateways, the first on .run/cluster/gateway.sock, NODES=2 nodes
	@exec $(BIN)/python deploy/dev/cluster/run.py start --nodes $(or $(NODES),2) --gateways $(or $(GATEWAYS),1) --engine $(or $(ENGINE),auto)

cluster-stop: ## end that cluster, and whatever it has left
	@$(PYTHON) deploy/dev/cluster/run.py stop

test-cluster: setup images-oci namespaces browser postgres broker object-storage ## faults of a cluster, rolling upgrades, and the tests of the daemon against a gateway; as root, about 25 minutes
	@$(OCI_SH) run $(BIN)/pytest -m cluster
	@TESTS_BEHIND=gateway $(OCI_SH) run $(BIN)/pytest -m engine tests/e2e

two-machines: setup images-oci broker postgres ## a cluster whose second machine is cut off, loses power and has its clock moved; emulated, as root; PROGRAMS=200
	@$(OCI_SH) run $(BIN)/python tests/two_machines.py --programs $(or $(PROGRAMS),200)

setup: $(READY) ## the virtual environment, every package checked against its hash

$(READY): requirements/dev.txt requirements/generator.txt pyproject.toml deploy/dev/venv.sh
	@deploy/dev/venv.sh $(PYTHON) $(VENV) dev
	@$(MAKE) shellcheck
	@touch $(RUNS) $@

runtime: $(RUNS)

$(RUNS): requirements/run.txt requirements/build.txt pyproject.toml deploy/dev/venv.sh
	@deploy/dev/venv.sh $(PYTHON) $(VENV) run
	@touch $@

shellcheck:
	@command -v shellcheck >/dev/null || deploy/dev/packages.sh shellcheck || echo "setup: hints for bash are shorter without shellcheck" >&2

engine: ## a container engine: the one that answers, else a private one below .run/engine
	@$(ENGINE_SH) start

namespaces: ## what tests need to make network namespaces: installed as root on Debian, else named
	@deploy/dev/namespaces.sh

broker: ## the broker of a cluster, for tests: installed as root on Debian, else named
	@deploy/dev/rabbitmq.sh install

postgres: ## the database of a cluster, for tests of the store: installed as root on Debian, else named
	@deploy/dev/postgres.sh install

object-storage: ## two servers that speak S3, for tests of bundles: fetched as locked, below .run/cache
	@deploy/dev/s3.sh install

browser: ## what tests of the console look at it with: installed as root on Debian, else named
	@deploy/dev/browser.sh

images: runtime engine ## build the images and load those that the engine does not have
	@$(WITH_DOCKER) ASSAYD_ENGINE__KIND=docker $(BIN)/assay images build --cache .run/cache/images $(IMAGES)

crun:
	@$(OCI_SH) install

images-oci: runtime crun ## install crun where it is missing, and unpack the images below .run/images
	@$(WITH_OCI) $(BIN)/assay images build --cache .run/cache/images $(IMAGES)

LOCK := $(BIN)/pip-compile --quiet --allow-unsafe --strip-extras --generate-hashes --no-header \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options
requirements: setup ## lock the packages of pyproject.toml again: those of a checkout, and those of an installation; LOCKS="run …" only some
	@for lock in $(or $(LOCKS),dev run anthropic cluster gemini lsp mcp openai otel build generator moto agents); do \
		case $$lock in \
			dev) $(LOCK) --extra dev -o requirements/dev.txt pyproject.toml ;; \
			run) $(LOCK) --constraint requirements/dev.txt -o requirements/run.txt pyproject.toml ;; \
			build) $(LOCK) --constraint requirements/dev.txt -o requirements/build.txt requirements/build.in ;; \
			generator | moto | agents) $(LOCK) -o requirements/$$lock.txt requirements/$$lock.in ;; \
			*) $(LOCK) --extra $$lock --constraint requirements/dev.txt -o requirements/$$lock.txt pyproject.toml ;; \
		esac; done

WHEEL = rm -f dist/assayd-*.whl; $(BIN)/python -m build --wheel --no-isolation --outdir dist . >/dev/null
client: setup ## the client's wheels below dist/: the library and `assay` without the daemon, and the optional parts
	@for part in client/pyproject.toml client/*/pyproject.toml; do $(BIN)/python -m build --wheel --no-isolation --outdir dist $$(dirname $$part) >/dev/null; done

deb: setup ## a Debian package below dist/, with everything that the daemon needs but Python and an engine
	@$(WHEEL)
	@deploy/debian/build.sh dist/assayd-*.whl dist

release: setup images ## all that a release consists of, below dist/release: built twice, compared, and each installed on a bare Debian; as root
	@deploy/release.sh $(BIN)/python dist/release
	@$(WITH_DOCKER) RELEASE="$(CURDIR)/dist/release" $(BIN)/pytest -m system tests/system/installed_release.py

man: setup ## the manual pages below dist/man
	@$(BIN)/python deploy/manual_pages.py man dist/man

samples: setup ## write deploy/etc/assayd.toml anew, after a change of the settings
	@$(BIN)/assayd --sample-config >deploy/etc/assayd.toml

stop: ## end the private engine
	@$(ENGINE_SH) stop

clean: stop cluster-stop ## stop, and remove everything that these targets made
	@rm -rf .run $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
