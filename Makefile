# Commands for people; `make help` lists them. Everything they need is set up on first use:
# the Python environment lives outside the checkout, keyed by what it contains.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(or $(CROSSVENDOR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/crossvendor)
VENV := $(CACHE)/venv/$(shell cat requirements.txt requirements-dev.txt constraints.txt | sha256sum | cut -c1-16)
PYTHON := $(VENV)/bin/python
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check
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
	@$(PIP) -r requirements.txt
	@touch $@

# What tests and linters need besides; the main job starts sooner without it.
$(VENV)/ready-to-test: $(VENV)/ready
	@$(PIP) -r requirements-dev.txt
	@touch $@

# The local environment's tools and kubeconfig appear under build/ once it is up.
export PATH := $(VENV)/bin:$(CURDIR)/build/bin:$(PATH)
STACK ?= local
NVIDIA ?=
AMD ?=
SIZES := $(if $(NVIDIA),--size nvidia=$(NVIDIA)) $(if $(AMD),--size amd=$(AMD))
LOCAL := $(PYTHON) -m infra.local --stack $(STACK) $(SIZES)
# Another cluster: `make up KUBECONFIG=file` deploys to it and starts nothing here.
ifeq ($(origin KUBECONFIG),command line)
CLUSTER := $(KUBECONFIG)
else
CLUSTER := build/kubeconfig
endif

.PHONY: up
up: $(VENV)/ready ## main job: environment, platform, the allreduce across vendors, verdict and report
ifeq ($(CLUSTER),build/kubeconfig)
	@$(LOCAL) up
endif
	@mkdir -p build
	@$(PYTHON) -m infra.render deploy --stack $(STACK) --kubeconfig $(CLUSTER) $(SIZES) \
	  --timings build/timings.jsonl
	@$(PYTHON) -m workloads.run allreduce --kubeconfig $(CLUSTER) --timings build/timings.jsonl

.PHONY: down
down: $(VENV)/ready ## remove the local environment completely; caches stay
	@$(LOCAL) down

.PHONY: status
status: $(VENV)/ready ## what of the local environment runs
	@$(LOCAL) status

.PHONY: logs
logs: $(VENV)/ready ## the end of every log of the local environment
	@$(LOCAL) logs

.PHONY: shell
shell: $(VENV)/ready ## a shell with kubectl, helm and the local environment's kubeconfig
	@$(LOCAL) shell

.PHONY: render
render: $(VENV)/ready ## what a stack puts into Kubernetes, as YAML: make render STACK=local
	@$(PYTHON) -m infra.local tools
	@$(PYTHON) -m infra.render manifests --stack $(STACK) --output build/render/$(STACK).yaml

.PHONY: manifests
manifests: $(VENV)/ready ## render the shipped jobs again
	@$(PYTHON) -m workloads.render --all

.PHONY: images
images: $(VENV)/ready ## the images that jobs run, as archives to load onto nodes; says where they are
	@$(PYTHON) -m images.build $(if $(UCC_SOURCE),--ucc-source $(UCC_SOURCE)) launcher worker-cpu

.PHONY: test
test: $(VENV)/ready-to-test ## every test that this machine can run: unit tier, then the cluster tier
	@$(MAKE) check unit
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) cluster-test; \
	else echo "cluster tier: not run, it needs root; run 'sudo make test' for all of it"; fi

# The environment is the user's own, started if it is not there; what the tests need beside it has
# names and address ranges of its own.
.PHONY: cluster-test
cluster-test: $(VENV)/ready-to-test ## the cluster tier on the local environment; needs root
	@$(LOCAL) up
	@$(PYTHON) -m infra.render deploy --stack $(STACK) --kubeconfig build/kubeconfig $(SIZES)
	@$(PYTHON) -m pytest -q tests/apiserver tests/images tests/local tests/cluster --kubeconfig build/kubeconfig \
	  -p no:randomly --durations 10 --junitxml build/cluster-tier.xml

.PHONY: unit
unit: $(VENV)/ready-to-test ## the unit tier: offline, without root, under a minute
	@$(PYTHON) -m pytest -q -n auto --dist loadgroup

# Upgrades what the requirements pull in, in an environment of its own.
.PHONY: constraints
constraints: ## resolve again what the requirements leave open, and pin it
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	grep -hv '^-[cr] ' requirements.txt requirements-dev.txt > "$$folder/direct"; \
	python3 -m venv "$$folder/venv"; \
	"$$folder/venv/bin/pip" install --quiet --disable-pip-version-check -r "$$folder/direct"; \
	sed -E 's/(==|\[).*//; s/[-_]/[-_]/g; s/.*/^&==/' "$$folder/direct" > "$$folder/names"; \
	{ head -1 constraints.txt; "$$folder/venv/bin/pip" freeze | grep -vif "$$folder/names"; } \
	  > "$$folder/all"; \
	mv "$$folder/all" constraints.txt

.PHONY: check
check: $(VENV)/ready-to-test ## formatting, lint, types, manifests: under a minute
	@ruff format --check --quiet .
	@ruff check --quiet .
	@mypy
	@yamllint --strict .
	@hadolint --config .hadolint.yaml images/*/Dockerfile
	@shellcheck images/amd-node/*.sh images/scripts/*.sh images/scripts/apt-install images/scripts/start-sshd
