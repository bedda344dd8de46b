# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs by itself (scripts/setup.sh), and says what it installs.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-fast bench lint format setup clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build the example network into firmware and run it in QEMU
	@scripts/demo.sh

test: ## run the tests, those on Zephyr included
	@scripts/test.sh -m "not slow or zephyr"

test-all: ## run the long sweeps, too
	@scripts/test.sh

test-fast: ## run the tests that take seconds
	@scripts/test.sh -m "not slow and not zephyr"

bench: ## measure size, instructions and generation time of the example networks
	@scripts/bench.sh

lint: ## check style and types
	@scripts/lint.sh

format: ## format Python and C
	@scripts/lint.sh --fix

setup: ## install everything that the other targets need
	@scripts/setup.sh

clean: ## remove what the targets built, but not .venv
	rm -rf build build-* twister-out* .cache/bench .mypy_cache .ruff_cache .pytest_cache
