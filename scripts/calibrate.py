#!/usr/bin/env python3
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Fits the cost model to exact counts of the reference networks, and writes generator/mcufuse/costs_table.py.

For every row function on every kind of core, the count of a step is fitted by a sum of `costs.terms` with no
negative factor, for the least sum of squared relative errors. There are at least two more steps of different cost than
terms, and a further term must take at least a quarter off the error. There are two rounds, since the first table
changes which kernels are chosen. Takes some minutes:

    PYTHONPATH=generator .venv/bin/python scripts/calibrate.py
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mcufuse import costs_table
from mcufuse.bylayer import Layer, measure_layers
from mcufuse.config import load_config
from mcufuse.errors import UserError
from mcufuse.target import core_by_name

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "generator" / "mcufuse" / "costs_table.py"
NETWORKS = ("kws", "ic", "vww", "ad", "sww")
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55")
MOST_FOR_A_TICK = 150  # instructions; more is no overhead of a call, but a fit to too few shapes
Terms = tuple[float, ...]


def fit(layers: Sequence[Layer]) -> Terms:
    """The factors of least relative error."""
    different = {(*x.terms[1:], x.instructions): x for x in layers}  # the first term may differ by a rounding
    seen = np.array(sorted((*x.terms, x.instructions) for x in different.values()), np.float64)
    scaled = seen[:, :-1] / seen[:, -1:]
    size = scaled.shape[1]
    best: Terms = (1.0, *(0.0,) * (size - 1))
    best_error = float(np.square(scaled[:, 0] - 1).sum())
    few = len(seen) <= 2  # they do not tell the terms apart: only the kernel's own estimate is scaled
    for count in range(1, 2 if few else min(size, len(seen) - 2) + 1):
        ways = itertools.combinations(range(1 if few else size), count)
        found = [found for chosen in ways if (found := _fit(scaled, chosen))]
        error, terms = min(found, default=(np.inf, best))
        if error < 0.75 * best_error:
            best, best_error = terms, error
    return best


def _fit(scaled: npt.NDArray[np.float64], chosen: tuple[int, ...]) -> tuple[float, Terms] | None:
    """(error, factors) with some of the terms; None if a factor makes no sense."""
    factors, *_ = np.linalg.lstsq(scaled[:, chosen], np.ones(len(scaled)), rcond=None)
    terms = [0.0] * scaled.shape[1]
    for i, value in zip(chosen, factors, strict=True):
        terms[i] = float(value)
    if min(terms) < 0 or terms[-1] > MOST_FOR_A_TICK or (terms[0] == 0 and terms[1] == 0):
        return None
    return float(np.square(scaled[:, chosen] @ factors - 1).sum()), tuple(terms)


def _uncorrected(key: tuple[str, str], layer: Layer) -> Layer | None:
    """The step with the kernel's own estimate as its first term; None if the table does not use that."""
    factors = costs_table.CORRECTIONS.get(key)
    if factors is None:
        return layer
    if factors[0] == 0:
        return None
    others = sum(f * part for f, part in zip(factors[1:], layer.terms[1:], strict=True))
    return replace(layer, terms=(round((layer.terms[0] - others) / factors[0]), *layer.terms[1:]))


def measure_all(groups: dict[tuple[str, str], list[Layer]]) -> None:
    """Adds all steps by kind of core and row function, with terms as they are without corrections."""
    for core in map(core_by_name, CORES):
        for network in NETWORKS:
            try:
                found = measure_layers(load_config(ROOT / "examples" / "models" / f"{network}_int8.tflite"), core)
            except UserError as error:
                print(f"{network} on {core.name}: left out: {str(error)[:200]}", file=sys.stderr)
                continue
            print(f"{network} on {core.name}: {found.total:,}", flush=True)
            for layer in found.layers:
                key = (core.counts_as, layer.kernel)
                raw = _uncorrected(key, layer)
                if raw is not None:
                    groups.setdefault(key, []).append(raw)


def main() -> int:
    """Fits and writes; prints the worst error of each function before and after."""
    costs_table.CORRECTIONS.clear()
    groups: dict[tuple[str, str], list[Layer]] = {}
    for _ in range(2):
        measure_all(groups)
        costs_table.CORRECTIONS.clear()
        costs_table.CORRECTIONS.update({key: fit(layers) for key, layers in groups.items()})
    lines = []
    for key, layers in sorted(groups.items()):
        factors = costs_table.CORRECTIONS[key]
        after = [sum(f * part for f, part in zip(factors, layer.terms, strict=True)) for layer in layers]
        worst = max(abs(a / t.instructions - 1) for a, t in zip(after, layers, strict=True))
        before = max(abs(t.terms[0] / t.instructions - 1) for t in layers)
        print(f"{key[0]:5} {key[1]:38} {len(layers):3} steps  {before:6.1%} -> {worst:6.1%}")
        lines.append(f'    ("{key[0]}", "{key[1]}"): ({", ".join(f"{factor:.3f}" for factor in factors)}),\n')
    head = TABLE.read_text().partition("CORRECTIONS: dict")[0]
    TABLE.write_text(head + "CORRECTIONS: dict[tuple[str, str], tuple[float, ...]] = {\n" + "".join(lines) + "}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
