# Every target makes what it needs first; a second run downloads nothing.
.DEFAULT_GOAL := help
BIN := .venv/bin
PYTHON := $(BIN)/python

# Tests start hundreds of processes, each of which would compile the project's modules again.
unexport PYTHONDONTWRITEBYTECODE

# pip's own settings (an index, certificates) hold for uv where it knows them too.
COMPILE := $(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:[^#]*## */\t/' | expand -t 14

.PHONY: demo
demo: setup  ## all of it: demo source, Airflow, hours refreshed until an incremental one is steady; again for the next
	@$(PYTHON) -m scripts.demo

.PHONY: demo-red
demo-red: setup  ## the next hour of the demo fails its check, on purpose; says what to look at
	@$(PYTHON) -m scripts.demo red

.PHONY: demo-heal
demo-heal: setup  ## recover from make demo-red: mend the source, restate the hour
	@$(PYTHON) -m scripts.demo heal

.PHONY: up
up: setup  ## Airflow on this machine, for this machine only; prints address and login
	@$(BIN)/medallion airflow up

.PHONY: down
down:  ## stop what `make up` or `make demo` started
	@if [ -x $(PYTHON) ]; then $(BIN)/medallion airflow down; fi

.PHONY: setup
setup:  ## environment, locked packages, Java, JARs: whatever is missing
	@scripts/bootstrap

.PHONY: setup-s3
setup-s3:  ## the same, and the JARs for a lake on s3a://
	@scripts/bootstrap --s3

# Three workers on two cores: one of them waits for Airflow most of the time.
PYTEST := $(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

.PHONY: test
test: check  ## every check, and every test but the long ones: twenty minutes on two quiet cores
	@$(PYTEST) -m "not long"

.PHONY: test-all
test-all: check  ## every check and every test: an hour and a half on two cores
	@$(PYTEST)

.PHONY: test-quick
test-quick: check  ## every check, and the quick tests that need neither Spark nor a scheduler
	@$(PYTEST) -m "not slow" tests/unit tests/airflow

.PHONY: coverage
coverage: setup-dev  ## lines of medallion/ that the quick tests do not run
	@$(PYTEST) --quiet --cov=medallion \
		--cov-report=term-missing:skip-covered tests/unit tests/airflow

.PHONY: house
house: setup-dev  ## sizes, parameters, complexity, cycles and words of the code, now and before
	@$(PYTHON) -m scripts.house

.PHONY: check
check: setup-dev  ## lint of Python and SQL, format, types, layering, refresh methods
	@$(MAKE) --no-print-directory --jobs 2 check-types check-lint check-sql check-methods check-scopes

.PHONY: check-types check-lint check-sql check-methods check-scopes
check-types:
	@$(BIN)/mypy
check-lint:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/deptry --no-ansi .
check-sql:
	@$(PYTHON) -m scripts.sql_lint
check-methods:
	@$(BIN)/medallion plan --check
check-scopes:
	@$(PYTHON) -m medallion.checks.scope_proof

.PHONY: reference
reference: setup-dev  ## write docs/reference from the code
	@$(PYTHON) -m scripts.reference

.PHONY: docs
docs: reference  ## the documentation as a site, in site/
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet --site-dir site
	@echo "site/index.html"

.PHONY: format
format: setup-dev  ## put the code in shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: screenshots
screenshots: setup-dev  ## the pictures of the guide, taken from the running Airflow
	@$(PYTHON) -m scripts.screenshots

.PHONY: setup-dev
setup-dev:
	@scripts/bootstrap --dev

.PHONY: lock
lock: setup  ## write the locks anew from the .in files
	$(COMPILE) requirements.in -o requirements.txt
	$(COMPILE) requirements-dev.in -o requirements-dev.txt
	$(COMPILE) scripts/bootstrap.in -o scripts/bootstrap.txt
