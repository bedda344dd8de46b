#!/usr/bin/env python3
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Exact instruction counts of the reference networks, and the stored baselines that they are held against.

PYTHONPATH=generator .venv/bin/python tests/instruction_counts.py --update-baselines
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mcufuse.config import load_config
from mcufuse.measure import measure
from mcufuse.target import core_by_name

__all__ = ["ALLOWED", "BASELINES", "CORES", "NETWORKS", "count_instructions", "load_baselines"]

TESTS = Path(__file__).resolve().parent
BASELINES = TESTS / "data" / "instructions.json"
NETWORKS = ("kws", "ic", "vww", "ad", "sww")
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
ALLOWED = 1.01  # of the baseline
_INPUTS = 3  # the greatest count of these


def count_instructions(network: str, core: str) -> tuple[int, str]:
    """Instructions of one inference with the default configuration, and the compiler."""
    config = load_config(TESTS.parent / "examples" / "models" / f"{network}_int8.tflite")
    measured = measure(config, core_by_name(core), count=_INPUTS)
    assert measured.exact
    return int(measured.report["instructions"]), str(measured.report["toolchain"])


def load_baselines() -> dict[str, dict[str, int]]:
    """Counts by core and network."""
    counts: dict[str, dict[str, int]] = json.loads(BASELINES.read_text())["instructions"]
    return counts


def main() -> int:
    """Counts everything; compares, or stores with --update-baselines."""
    parser = argparse.ArgumentParser(description="Count instructions of the reference networks.")
    parser.add_argument("--update-baselines", action="store_true", help="store the counts instead of comparing")
    update = parser.parse_args().update_baselines
    found: dict[str, dict[str, int]] = {}
    toolchain = ""
    for core in CORES:
        for network in NETWORKS:
            count, toolchain = count_instructions(network, core)
            found.setdefault(core, {})[network] = count
            print(f"{network} on {core}: {count:,}", flush=True)
    if update:
        BASELINES.parent.mkdir(exist_ok=True)
        BASELINES.write_text(json.dumps({"toolchain": toolchain, "instructions": found}, indent=2) + "\n")
        return 0
    stored = load_baselines()
    return int(any(found[c][n] > ALLOWED * stored[c][n] for c in CORES for n in NETWORKS))


if __name__ == "__main__":
    sys.exit(main())
