# Everything starts from a fresh checkout: each target sets up .venv first, once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes. Without cached bytecode each would compile the package anew,
# and each worker of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

# The first Python that is new enough; `make PYTHON=...` overrides.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)

# mypy refuses a folder that is missing or holds no module.
TYPED := src tests tools examples $(if $(wildcard bench/*.py),bench)

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: install
install: $(READY) ## create .venv with the locked dependencies and phalanx itself

.PHONY: demo
demo: $(READY) ## five real members, a crash, a split, a merge, and what their journals prove
	@$(java_ready) || { $(call install,$(JAVA_PACKAGES),the audit on Spark); } || true
	@$(BIN)/phalanx demo --report demo-report.html $$($(java_ready) && echo --spark)

.PHONY: test
test: lint ## all checks and all tests that are not slow
	@$(lan_ready) || { $(call install,$(LAN_PACKAGES),tests in network namespaces); } || true
	@$(java_ready) || { $(call install,$(JAVA_PACKAGES),tests of the pipeline); } || true
	@$(browser_ready) || { $(call install,$(BROWSER_PACKAGES),tests of the report in a browser); } || true
	@if $(java_ready); then $(BIN)/python -m phalanx.pipeline.class_archive >/dev/null; fi
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "not slow"

# pytest exits with 5 when there is no slow test to run; the sweep still counts.
.PHONY: test-long
test-long: $(READY) ## the slow tests and a long sweep; takes as long as it takes
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m slow || [ $$? -eq 5 ]
	$(BIN)/phalanx sim sweep --kind fixed --seeds 0:5000 --members 2:8
	$(BIN)/phalanx sim sweep --seeds 0:10000 --members 3:8
	$(BIN)/phalanx sim sweep --kind storm --seeds 0:3000
	$(BIN)/phalanx sim sweep --kind mesh --seeds 0:3000
	$(BIN)/phalanx explore --walk --seconds 3600 --corpus tests/sweeps/kept

.PHONY: compiled
compiled: $(READY) ## build/compiled/phalanx: the simulator and the explorer about twice as fast
	$(BIN)/python tools/compile_search.py build/compiled

.PHONY: lint
lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check --no-cache
	$(BIN)/mypy $(TYPED)

.PHONY: format
format: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Without root, or where packages cannot be had, the benchmark says what is missing and goes on
# without it.
.PHONY: bench
bench: $(READY) ## real groups beside Corosync, in under 20 minutes
	@$(peer_ready) || { $(install_peer); } || true
	@$(BIN)/python bench/bench_real.py --headline

# Those that are not about the core.
APART := bench/bench_real.py bench/bench_audit.py bench/bench_campaign.py bench/bench_search.py \
	bench/bench_live_ingest.py bench/bench_spark_start.py bench/bench_stream.py bench/bench_watch.py \
	bench/bench_mesh.py bench/bench_mesh_heal.py bench/bench_mesh_size.py bench/bench_past.py bench/bench_seal.py \
	bench/bench_service.py bench/bench_service_scale.py

.PHONY: bench-service
bench-service: $(READY) ## the membership service under load beside etcd, in about three minutes
	@$(etcd_ready) || { $(install_etcd); } || true
	@$(BIN)/python bench/bench_service.py run

.PHONY: bench-core
bench-core: $(READY) ## what the protocol alone costs, in memory and in simulation
	@set -e; for file in $(filter-out $(APART),$(wildcard bench/bench_*.py)); do \
		echo "== $$file"; $(BIN)/python "$$file"; \
	done

# Pins that still fit are kept; `make lock LOCK_FLAGS=--upgrade` moves them. Always made with
# the oldest Python we support, whose dependencies include those of the newer ones.
.PHONY: lock
lock: $(READY) ## write requirements.lock anew from pyproject.toml
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo "lock: needs a .venv made by Python 3.11: make clean, then make lock PYTHON=python3.11"; exit 1; }
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes --extra dev \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --strip-extras \
		--allow-unsafe $(LOCK_FLAGS) --output-file requirements.lock pyproject.toml

.PHONY: clean
clean: ## remove .venv, caches and build output
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A .venv without a working pip (Debian leaves one when ensurepip is missing) is made anew.
$(READY): requirements.lock pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(create_venv); }
	@echo "installing the locked dependencies into $(VENV)"
	@$(BIN)/python -m pip install -qq --no-input --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --no-input --no-deps --no-build-isolation -e .
	@touch $@

# What Debian has and pip has not. Tests that need what is missing skip, and say so; without Java the
# demo ends before Spark.
LAN_PACKAGES := iproute2 nftables
lan_ready = ( for program in nft ip; do command -v $$program >/dev/null || exit 1; done )
JAVA_PACKAGES := openjdk-17-jre-headless
java_ready = command -v java >/dev/null
BROWSER_PACKAGES := chromium
browser_ready = command -v chromium >/dev/null

# $(call install,PACKAGES,what they are for)
define install
if command -v apt-get >/dev/null && [ "$$(id -u)" -eq 0 ]; then \
	echo "installing $(1)"; \
	apt-get update -qq; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null; \
else \
	echo "for $(2): apt-get install $(1), as root"; \
fi
endef

PEER_PACKAGES := corosync libcpg-dev gcc libc6-dev iproute2 nftables
peer_ready = ( [ -e /usr/include/corosync/cpg.h ] || exit 1; \
	for program in corosync nft ip gcc; do command -v $$program >/dev/null || exit 1; done )

# Debian starts a daemon of its own with the package; the benchmark brings its own.
define install_peer
if command -v apt-get >/dev/null && [ "$$(id -u)" -eq 0 ]; then \
	echo "installing $(PEER_PACKAGES)"; \
	had=$$(command -v corosync); \
	apt-get update -qq; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PEER_PACKAGES) >/dev/null; \
	[ -n "$$had" ] || ! command -v systemctl >/dev/null || systemctl disable --now corosync >/dev/null 2>&1; \
else \
	echo "to measure Corosync as well: apt-get install $(PEER_PACKAGES)"; \
fi
endef

etcd_ready = command -v etcd >/dev/null

# Debian starts a daemon of its own with this package too.
define install_etcd
if command -v apt-get >/dev/null && [ "$$(id -u)" -eq 0 ]; then \
	echo "installing etcd-server"; \
	apt-get update -qq; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends etcd-server >/dev/null; \
	! command -v systemctl >/dev/null || systemctl disable --now etcd >/dev/null 2>&1; \
else \
	echo "to measure etcd as well: apt-get install etcd-server, as root"; \
fi
endef

define create_venv
set -e; python="$(PYTHON)"; \
[ -n "$$python" ] || { echo "phalanx needs Python 3.11 or newer: install it, or name it with make PYTHON=..."; exit 1; }; \
can_make_venv() { "$$python" -c 'import ensurepip, venv' 2>/dev/null; }; \
if ! can_make_venv && command -v apt-get >/dev/null && [ "$$(id -u)" -eq 0 ]; then \
	echo "installing python3-venv"; \
	apt-get update -qq; \
	own=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
	for package in python3-venv "$$own"; do \
		can_make_venv || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$package" >/dev/null || true; \
	done; \
fi; \
can_make_venv || { echo "$$python cannot create a virtual environment: install python3-venv (Debian, Ubuntu: apt-get install python3-venv)"; exit 1; }; \
rm -rf $(VENV); "$$python" -m venv $(VENV)
endef
