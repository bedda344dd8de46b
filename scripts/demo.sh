#!/usr/bin/env bash
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
# Sets up, then turns the keyword-spotting network into firmware and runs it in QEMU: on Zephyr when there is a
# workspace, bare-metal in any case.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
export PATH="$PWD/.venv/bin:$PATH"
config=examples/kws/kws.yaml
board=qemu_cortex_m3

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

run mcufuse run "$config" --core cortex-m3
problem=$(python -c 'from mcufuse.doctor import zephyr_problem as f; print(f())')
if [ -n "$problem" ]; then
  printf '\ndemo: this was the bare-metal runtime; %s\n' "$problem"
  exit
fi
zephyr=$(python -c 'from mcufuse.doctor import find_zephyr_base as f; print(f())')
workspace=$PWD/.cache/workspace
build=$PWD/.cache/demo
config=$PWD/$config
rm -rf "$workspace" # links only; what is built stands elsewhere
python -c 'import sys; from pathlib import Path
from mcufuse.zephyr.workspace import make_workspace
make_workspace(Path(sys.argv[1]), Path(sys.argv[2]))' "$workspace" "$zephyr"
export ZEPHYR_BASE="$workspace/zephyr"
cd "$workspace"
run west mcufuse run "$config" -b "$board" -d "$build"
run west mcufuse report -d "$build"
