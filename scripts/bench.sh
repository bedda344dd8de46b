#!/usr/bin/env bash
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
# Measures the example networks; arguments go to `mcufuse bench`, e.g. scripts/bench.sh --core cortex-m4
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh tools python
models=()
for name in kws vww ic ad sww; do
  models+=("examples/models/${name}_int8.tflite")
done
if [ "$#" -eq 0 ]; then
  set -- --core cortex-m3 --core cortex-m4 --core cortex-m55
fi
exec .venv/bin/mcufuse bench "${models[@]}" "$@"
