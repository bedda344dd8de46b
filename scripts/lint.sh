#!/usr/bin/env bash
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
# Checks style and types; --fix formats instead.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh python
bin=.venv/bin

mapfile -t python < <(git ls-files --cached --others --exclude-standard -- '*.py')
mapfile -t c < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h')

if [ "${1:-}" = --fix ]; then
  "$bin/ruff" check --fix -- "${python[@]}" || true
  "$bin/ruff" format -- "${python[@]}"
  "$bin/clang-format" -i -- "${c[@]}"
  exit
fi

status=0
check() {
  local name=$1
  shift
  if "$@"; then
    echo "lint: $name: ok"
  else
    echo "lint: $name: FAILED" >&2
    status=1
  fi
}
check "ruff" "$bin/ruff" check --quiet -- "${python[@]}"
check "ruff format" "$bin/ruff" format --quiet --check -- "${python[@]}"
check "mypy" "$bin/mypy"
check "clang-format" "$bin/clang-format" --dry-run -Werror -- "${c[@]}"
exit "$status"
