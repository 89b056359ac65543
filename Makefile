# Commands for people; `make help` lists them. Everything they need is set up on first use:
# the Python environment lives outside the checkout, keyed by what it contains.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(or $(CROSSVENDOR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/crossvendor)
VENV := $(CACHE)/venv/$(shell cat requirements.txt requirements-dev.txt constraints.txt | sha256sum | cut -c1-16)
PYTHON := $(VENV)/bin/python
export PATH := $(VENV)/bin:$(PATH)

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

# Debian and Ubuntu ship venv apart from Python; a half-made environment must not look finished.
$(VENV)/ready:
	@echo "python: creating the environment (about a minute, once)"
	@python3 -c 'import ensurepip' 2>/dev/null || apt-get install -y -qq python3-venv >/dev/null || \
	  { echo "python: the venv module is missing and cannot be installed; run 'apt-get install python3-venv' as root." >&2; exit 2; }
	@rm -rf $(VENV) && python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

.PHONY: check
check: $(VENV)/ready ## formatting, lint, types, manifests: under a minute
	@ruff format --check --quiet .
	@ruff check --quiet .
	@mypy
	@yamllint --strict .

.PHONY: unit
unit: $(VENV)/ready ## the unit tier: offline, without root, under a minute
	@$(PYTHON) -m pytest -q
