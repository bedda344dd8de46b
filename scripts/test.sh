#!/usr/bin/env bash
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
# Runs the tests; further arguments go to pytest, e.g. scripts/test.sh -k config
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/python -m pytest -n "${PYTEST_WORKERS:-auto}" --dist worksteal "$@"
