# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The importer and the oracle against TFLite Micro's reference interpreter: no bit may differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mcufuse.importers.tflite import import_tflite
from mcufuse.importers.tflite_ops import OPERATORS
from mcufuse.importers.tflite_schema import read_model
from mcufuse.ir import Graph, Reshape
from mcufuse.oracle import evaluate, evaluate_all
from tflite_cases import CASES, Case, sample_inputs
from tflm import Tflm

pytestmark = pytest.mark.tflm

PARAMETER_SETS = 30
INPUTS = 5
NETWORK_INPUTS = 100
NETWORKS = ("kws", "ic", "vww", "ad", "sww")


@pytest.fixture(scope="module")
def tflm() -> Iterator[Tflm]:
    """One interpreter process for all tests of the file."""
    with Tflm() as interpreter:
        yield interpreter


@pytest.mark.parametrize("name", [name for name, build in CASES.items() if build(np.random.default_rng(0)).in_tflm])
def test_operator_equals_tflm(name: str, tflm: Tflm) -> None:
    distinct = set()
    for seed in range(PARAMETER_SETS):
        rng = np.random.default_rng([seed, *name.encode()])
        case = CASES[name](rng)
        runs = sample_inputs(case, rng, INPUTS)
        wanted = tflm.run(case.data, runs, case.outputs)
        graph = import_tflite(Path(f"{name}.tflite"), case.data, None)
        for run, want in zip(runs, wanted, strict=True):
            got = evaluate(graph, run)
            for g, w in zip(got, want, strict=True):
                assert g.dtype == w.dtype
                np.testing.assert_array_equal(g.ravel(), w.ravel(), f"{name}, seed {seed}")
                distinct.update(np.unique(w).tolist())
    assert len(distinct) > 50, "the outputs take so few values that the comparison says little"


def test_the_cases_cover_the_importer() -> None:
    rng = np.random.default_rng(7)
    seen = set()
    for build in CASES.values():
        for _ in range(3):
            seen.update(op.kind for op in read_model(build(rng).data, "case").operators)
    assert seen >= set(OPERATORS)


def _network(models: Path, name: str) -> tuple[Case, Graph]:
    path = models / f"{name}_int8.tflite"
    graph = import_tflite(path, path.read_bytes(), None)
    shape = graph.tensors[graph.inputs[0]].shape
    return Case(path.read_bytes(), ((shape, "INT8"),)), graph


@pytest.mark.parametrize("name", NETWORKS)
def test_network_equals_tflm(name: str, tflm: Tflm, models: Path) -> None:
    case, graph = _network(models, name)
    runs = sample_inputs(case, np.random.default_rng(2026), NETWORK_INPUTS)
    wanted = tflm.run(case.data, runs, 1)
    for i, (run, (want,)) in enumerate(zip(runs, wanted, strict=True)):
        (got,) = evaluate(graph, run)
        np.testing.assert_array_equal(got, want, f"input {i}")
    assert len({want.tobytes() for (want,) in wanted}) > 2


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_equals_tflm(name: str, tflm: Tflm, models: Path) -> None:
    """Softmax hides much, so that the tensors between are compared too."""
    case, graph = _network(models, name)
    numbers = {info.name: info.index for info in read_model(case.data, name).tensors}
    names = [op.output for op in graph.ops if op.output in numbers and not isinstance(op, Reshape)]
    assert len(names) >= len(graph.ops) - 3
    runs = sample_inputs(case, np.random.default_rng(5), 4)
    wanted = tflm.run(case.data, runs, 1, [numbers[n] for n in names])
    for run, (_, *want) in zip(runs, wanted, strict=True):
        values = evaluate_all(graph, run)
        for tensor, w in zip(names, want, strict=True):
            np.testing.assert_array_equal(values[tensor].ravel(), w.ravel(), tensor)
