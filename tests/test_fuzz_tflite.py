# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged TFLite files end in a `UserError` or in a graph that verifies: no traceback, no hang, no unbounded memory.

The work is done by this file run as a script, in a process with bounded address space and a timer on each case.
MCUFUSE_FUZZ_ROUNDS multiplies the number of cases.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

ROUNDS = int(os.environ.get("MCUFUSE_FUZZ_ROUNDS", "1"))
NETWORK_CASES = 150 * ROUNDS
SMALL_CASES = 40 * ROUNDS
SECONDS = 5  # for one case
ADDRESS_SPACE = 2 << 30  # NumPy itself maps some hundreds of megabytes
EVALUATED = 1 << 14  # elements up to which a graph is also run

NETWORKS = ("kws", "ic", "vww", "ad", "sww")
WORDS = (0, 1, 2, 3, 4, 7, 8, 127, 255, 256, 65535, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 0x7FC00000)

Rng = np.random.Generator


def metadata(data: bytes) -> npt.NDArray[np.int64]:
    """The positions of all bytes that are not the data of large constants, where damage is more telling."""
    from mcufuse.importers.tflite_schema import read_model

    keep = np.ones(len(data), bool)
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    for tensor in read_model(data, "good").tensors:
        if tensor.raw is not None and len(tensor.raw) > 64:
            at = tensor.raw.__array_interface__["data"][0] - start
            keep[at : at + len(tensor.raw)] = False
    return np.flatnonzero(keep)


def mutate(data: bytes, places: npt.NDArray[np.int64], rng: Rng) -> bytes:
    """A damaged copy: flipped bits, other bytes or words, a truncation, a cut or repeated range."""
    out = bytearray(data)
    kind = rng.integers(0, 10)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.choice(places))
        if kind < 4:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind < 5:
            out[at] = int(rng.integers(256))
        elif kind < 8:
            word = at & ~3
            out[word : word + 4] = int(rng.choice(WORDS)).to_bytes(4, "little")
    if kind == 8:
        return bytes(out[: int(rng.integers(len(out)))])
    if kind == 9:
        begin = int(rng.choice(places))
        end = min(begin + int(rng.integers(1, 64)), len(out))
        out[begin:end] = b"" if rng.random() < 0.5 else bytes(out[begin:end]) * 2
    return bytes(out)


def edit(model: Any, rng: Rng) -> None:
    """Damages a `TfliteBuilder` before it is written: the file stays well-formed, what it says does not."""
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.6:
            _edit_tensor(model._tensors[int(rng.integers(len(model._tensors)))], rng)
        else:
            _edit_op(model._ops[int(rng.integers(len(model._ops)))], len(model._tensors), rng)


def _edit_tensor(tensor: Any, rng: Rng) -> None:
    kind = rng.integers(8)
    if kind < 3 and tensor.shape:
        shape = list(tensor.shape)
        shape[int(rng.integers(len(shape)))] = int(rng.choice([0, -1, 1, 2, 3, 5, 17, 1 << 16, (1 << 31) - 1]))
        tensor.shape = tuple(shape)
    elif kind == 3:
        tensor.shape = tensor.shape[1:] if rng.random() < 0.5 else (1, *tensor.shape)
    elif kind == 4:
        tensor.dtype = str(rng.choice(["INT8", "UINT8", "INT16", "INT32", "INT64", "FLOAT32", "BOOL", "STRING"]))
    elif kind == 5:
        tensor.scales = [[float(v)] for v in (0, -1, np.nan, np.inf, 1e-45, 1e-20, 1e-6, 1, 1e30)][int(rng.integers(9))]
        tensor.zeros = [int(rng.choice([-129, -128, -1, 0, 1, 127, 128, 1 << 40]))]
    elif kind == 6:
        tensor.axis = int(rng.integers(-2, 6))
    else:
        tensor.data = None if rng.random() < 0.5 or tensor.data is None else rng.bytes(len(tensor.data))


def _edit_op(op: Any, tensors: int, rng: Rng) -> None:
    kind = rng.integers(4)
    if kind == 0 and op.inputs:
        op.inputs[int(rng.integers(len(op.inputs)))] = int(rng.integers(-1, tensors))
    elif kind == 1:
        (op.inputs if rng.random() < 0.7 else op.outputs).append(int(rng.integers(0, tensors)))
    elif kind == 2 and op.options is not None and op.options[1]:
        fields = op.options[1]
        name = str(rng.choice(list(fields)))
        if isinstance(fields[name], (int, float)):
            fields[name] = type(fields[name])(rng.choice([-1, 0, 1, 2, 3, 5, 100]))
    else:
        op.code = int(rng.integers(0, 127))


def _edited(name: str, rng: Rng) -> bytes:
    """A small model that was damaged before it was written."""
    import tflite_cases
    from tflite_builder import TfliteBuilder

    class Damaged(TfliteBuilder):
        def build(self, inputs: Any, outputs: Any) -> bytes:
            edit(self, rng)
            return super().build(inputs, outputs)

    tflite_cases.TfliteBuilder = Damaged  # type: ignore[misc]
    try:
        return tflite_cases.CASES[name](rng).data
    finally:
        tflite_cases.TfliteBuilder = TfliteBuilder  # type: ignore[misc]


def _evaluate(graph: Any) -> None:
    """Runs a small graph once: what verifies can be computed."""
    from mcufuse.oracle import evaluate

    if sum(t.elements for t in graph.tensors.values()) <= EVALUATED:
        inputs = [np.zeros(graph.tensors[n].shape, np.dtype(graph.tensors[n].dtype.value)) for n in graph.inputs]
        evaluate(graph, inputs)


def _try(data: bytes) -> str:
    """How the import ends: "graph", "refused", or the traceback of anything else."""
    from mcufuse.errors import UserError
    from mcufuse.importers.tflite import import_tflite

    try:
        graph = import_tflite(Path("fuzz.tflite"), data, None)
        _evaluate(graph)
    except UserError as error:
        assert error.problems
        assert all(p.message and p.place.startswith("fuzz.tflite") for p in error.problems)
        return "refused"
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc()
    return "graph"


def _expired(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def _work(request: dict[str, Any]) -> dict[str, Any]:
    """Tries all cases of one file; {"graph": n, "refused": n, "failures": [...]}."""
    from tflite_cases import CASES

    signal.signal(signal.SIGALRM, _expired)
    counts: Counter[str] = Counter()
    failures = []
    for name in request["names"]:
        good = Path(name).read_bytes() if "/" in name else CASES[name](np.random.default_rng(1)).data
        places = metadata(good)
        edited = request["edited"]
        for seed in range(request["cases"]):
            rng = np.random.default_rng([seed, *Path(name).name.encode()])
            data = _edited(name, rng) if edited else mutate(good, places, rng)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            result = _try(data)
            signal.setitimer(signal.ITIMER_REAL, 0)
            counts[result if result in ("graph", "refused") else "failed"] += 1
            if result not in ("graph", "refused"):
                failures.append(f"{name}, seed {seed}: {result}")
    return {**counts, "failures": failures}


def fuzz(names: list[str], cases: int, edited: bool = False) -> dict[str, Any]:
    """The counts of a worker process; fails with the tracebacks of what did not end well."""
    here = Path(__file__).parent
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{here.parent / 'generator'}:{here}"}
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__],
        input=json.dumps({"names": names, "cases": cases, "edited": edited}),
        capture_output=True,
        text=True,
        env=environment,
        timeout=SECONDS * 20 + cases * len(names),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert not result["failures"], "\n".join(result["failures"][:5])
    assert result.get("graph", 0) + result.get("refused", 0) == cases * len(names)
    return result


@pytest.mark.parametrize("name", NETWORKS)
def test_damaged_networks(name: str, models: Path) -> None:
    result = fuzz([str(models / f"{name}_int8.tflite")], NETWORK_CASES)
    assert min(result.get("graph", 0), result.get("refused", 0)) > NETWORK_CASES // 20


def test_damaged_small_models() -> None:
    from tflite_cases import CASES

    result = fuzz(sorted(CASES), SMALL_CASES)
    assert min(result["graph"], result["refused"]) > len(CASES)


def test_small_models_that_say_nonsense() -> None:
    from tflite_cases import CASES

    result = fuzz(sorted(CASES), SMALL_CASES, edited=True)
    assert min(result["graph"], result["refused"]) > len(CASES)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    json.dump(_work(json.load(sys.stdin)), sys.stdout)
