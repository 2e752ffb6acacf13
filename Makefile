# Everything starts here: `make` shows what there is. The first target that needs it sets up Python's packages in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PREPARED := $(VENV)/.prepared
SERVICES := tests/system tests/contract tests/browser
CONSOLE := src/meantime/console/static/index.html
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar off
LANES  ?= 6
# Tests start hundreds of processes: what Python has compiled is kept, also where the environment asks not to.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup console demo up down test check static unit docs screenshots bench chaos deploy-check fmt lock clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) $(CONSOLE) ## Install the pinned packages into .venv, and build the console

# Three pips at a time: Spark comes as 400 MB of source that have to be packed first, the other packages are half the work each.
# The locked versions are complete, so there are no dependencies to look for.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Meantime needs Python 3.11 or newer; say which one: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Setting up .venv (one to three minutes the first time: Spark is 400 MB) ..."
	@$(PYTHON) -m venv $(VENV)
	@awk '/^[^ ]/ { part = /^pyspark==/ ? "spark" : (++count % 2 ? "one" : "two") } { print > ("$(VENV)/" part ".lock") }' $<
	@$(MAKE) --no-print-directory --jobs 3 $(VENV)/spark.installed $(VENV)/one.installed $(VENV)/two.installed
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/spark.installed: COMPILE := --no-compile
$(VENV)/%.installed: $(VENV)/%.lock
	@$(PIP) $(COMPILE) --no-deps --require-hashes -r $<
	@echo "  $$(grep -c '^[^ ]*==' $<) of $$(grep -c '^[^ ]*==' requirements.lock) packages are installed"
	@touch $@

console: $(READY) $(CONSOLE) ## Build the console; its libraries come from npm, once

# Without npm nothing is made, and everything else goes on.
$(CONSOLE): $(shell find console -name node_modules -prune -o -type f -print) | $(READY)
	@$(BIN)/python console/building.py build

# `meantime up` does this by itself when the machine is idle; six lanes of tests would do it all at once, and beside the tests.
# One test runs on the Java that comes with the packages. What pytest compiles, the lanes would each compile for themselves; and Go
# its standard library within the time of a test.
$(PREPARED): $(READY)
	@echo "Fetching Kafka and making class archives for Java (two minutes the first time) ..."
	@$(BIN)/python -m meantime.stack.class_archives zookeeper kafka futures 2>/dev/null
	@$(BIN)/python -m meantime.stack.java.jars s3 >/dev/null
	@JAVA_HOME= PATH=$(VENV) $(abspath $(BIN)/python) -m meantime.stack.class_archives zookeeper kafka 2>/dev/null
	@$(BIN)/pytest --collect-only -q $(SERVICES) >/dev/null
	@command -v go >/dev/null && CGO_ENABLED=0 GOTOOLCHAIN=local go build -C tests/clients/go -buildvcs=false -o /dev/null . || true
	@touch $@

demo: $(READY) $(CONSOLE) ## Take the tour: everything comes up, is shown, broken, mended and stopped
	$(BIN)/meantime demo

up: $(READY) $(CONSOLE) ## Run the whole system here; Ctrl-C stops it
	$(BIN)/meantime up

down: $(READY) ## Stop what `make up` or `meantime up --detach` started
	$(BIN)/meantime down

# Much of a service test is waiting, so LANES files run at a time, the long ones first.
test: check $(CONSOLE) $(PREPARED) ## Everything: checks, then tests against real ZooKeeper, Kafka, PostgreSQL and Spark
	$(BIN)/pytest -n $(LANES) --dist loadfile --no-loadscope-reorder -m "not long" $(SERVICES)

check: $(READY) ## Formatting, lint, types, layers and unit tests
	@$(MAKE) --no-print-directory --jobs 2 static unit

static: $(READY)
	$(BIN)/ruff format --check src tests bench tools console
	$(BIN)/ruff check src tests bench tools console
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python console/building.py check

unit: $(READY)
	$(BIN)/pytest -n 2 tests/unit

docs: $(READY) ## Write the pages of docs/reference that come from the code
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/console_types.py

screenshots: $(READY) $(CONSOLE) ## Take the pictures of the README from a stack of its own
	$(BIN)/python tools/screenshots.py

bench: $(READY) ## Our side and a peer's in the same run, printed as ratios
	$(BIN)/meantime bench

chaos: $(READY) ## The fault suite at full length, and the tests of replicated services
	$(BIN)/meantime chaos
	$(BIN)/pytest -m long $(SERVICES)

deploy-check: $(READY) ## Container image, compose file, Helm chart and systemd units, by the tools that read them
	$(BIN)/python tools/deploy_check.py

fmt: $(READY) ## Format and fix what can be fixed
	$(BIN)/ruff format src tests bench tools console
	$(BIN)/ruff check --fix src tests bench tools console
	cd console && ../$(BIN)/deno fmt --quiet

lock: $(READY) ## Pin the newest allowed versions again (needs uv)
	uv pip compile --python-version 3.11 --universal --all-extras --generate-hashes --no-header --no-annotate \
	  --upgrade --quiet pyproject.toml -o requirements.lock

clean: ## Remove .venv and caches; data directories stay
	rm -rf $(VENV) console/node_modules src/meantime/console/static build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
