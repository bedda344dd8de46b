# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The inputs that a network is verified with: generated, and recorded by the user."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mcufuse.config import Config, Verify, load_config
from mcufuse.errors import UserError
from mcufuse.pipeline import Compiled, compile_network
from mcufuse.testcases import case_inputs, make_cases
from mcufuse.vectors import VectorKind

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def config(models: Path) -> Config:
    return load_config(models / "kws_int8.tflite").renamed("kws")


@pytest.fixture(scope="module")
def compiled(config: Config) -> Compiled:
    return compile_network(config, core=config.core())


@pytest.fixture(scope="module")
def recorded(compiled: Compiled) -> Arrays:
    """Three random inputs with the oracle's outputs."""
    rng = np.random.default_rng(7)
    inputs = rng.integers(-128, 128, (3, *compiled.inputs[0].shape[1:])).astype(np.int8)
    outputs = np.concatenate([compiled.evaluate([x[None]])[0] for x in inputs])
    return {"input_0": inputs, "output_0": outputs}


def with_vectors(config: Config, path: Path, count: int = 8) -> Config:
    return replace(config, path=Path("kws.yaml"), verify=Verify(path, count))


def saved(tmp_path: Path, arrays: Arrays) -> Path:
    np.savez(tmp_path / "io.npz", **arrays)  # type: ignore[arg-type]
    return tmp_path / "io.npz"


def test_generated(config: Config, compiled: Compiled) -> None:
    cases = make_cases(config, compiled, 4)
    assert [case.kind for case in cases] == [
        VectorKind.RANDOM, VectorKind.EXTREME, VectorKind.SMOOTH, VectorKind.RANDOM,
    ]  # fmt: skip
    for case in cases:
        (given,) = case_inputs(case, compiled.inputs)
        assert given.shape == compiled.inputs[0].shape[1:]
        (expected,) = case.expected
        assert np.array_equal(expected, compiled.evaluate([given[None]])[0].reshape(expected.shape))
    assert len(make_cases(config, compiled)) == 8


def test_recorded(config: Config, compiled: Compiled, recorded: Arrays, tmp_path: Path) -> None:
    cases = make_cases(with_vectors(config, saved(tmp_path, recorded)), compiled)
    assert [case.kind for case in cases] == [VectorKind.STORED] * 3
    assert np.array_equal(cases[1].inputs[0], recorded["input_0"][1])
    assert np.array_equal(cases[1].expected[0], recorded["output_0"][1])
    assert len(make_cases(with_vectors(config, tmp_path / "io.npz", count=2), compiled)) == 2


def test_recorded_under_the_models_names(config: Config, compiled: Compiled, recorded: Arrays, tmp_path: Path) -> None:
    arrays = {compiled.inputs[0].name: recorded["input_0"], compiled.outputs[0].name: recorded["output_0"]}
    assert len(make_cases(with_vectors(config, saved(tmp_path, arrays)), compiled)) == 3


def test_recorded_inputs_alone(config: Config, compiled: Compiled, recorded: Arrays, tmp_path: Path) -> None:
    path = saved(tmp_path, {"input_0": recorded["input_0"].reshape(3, -1)})
    cases = make_cases(with_vectors(config, path), compiled)
    assert np.array_equal(cases[2].expected[0], recorded["output_0"][2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {"x": a["input_0"]}, 'no array .* or "input_0"; it holds x'),
        (lambda a: a | {"input_0": a["input_0"].astype(np.float32)}, "input_0: float32, but the network has int8"),
        (lambda a: a | {"input_0": a["input_0"][:, :7]}, r"input_0: shape \[3, 7, 10, 1\], expected .* 49x10x1"),
        (lambda a: a | {"input_0": np.int8(3)}, r"input_0: shape \[\], expected"),
        (lambda a: a | {"output_0": a["output_0"][:2]}, r"arrays of different lengths: \[2, 3\]"),
        (lambda a: {k: v[:0] for k, v in a.items()}, "holds no vectors"),
        (
            lambda a: a | {"output_0": a["output_0"] ^ 1},
            "vector 0, .*: 12 of 12 recorded outputs differ from what mcufuse computes, by up to 1",
        ),
    ],
)
def test_recorded_that_does_not_fit(
    config: Config,
    compiled: Compiled,
    recorded: Arrays,
    tmp_path: Path,
    change: Callable[[Arrays], Arrays],
    message: str,
) -> None:
    path = saved(tmp_path, change(recorded))
    with pytest.raises(UserError, match=message) as caught:
        make_cases(with_vectors(config, path), compiled)
    assert all(p.place.startswith("kws.yaml: verify.vectors") for p in caught.value.problems)


def pickled() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, input_0=np.array([{"a": 1}], dtype=object))
    return stream.getvalue()


def bomb() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("input_0.npy", "w") as member:
        for _ in range(1025):
            member.write(bytes(1 << 20))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not a readable .npz"),
        (b"PK\x03\x04 broken", "not a readable .npz"),
        (pickled(), "not a readable .npz .*pickle"),
        (bomb(), "unpacks to 1,074,790,400 B"),
    ],
    ids=["empty", "broken", "pickle", "bomb"],
)
def test_recorded_that_cannot_be_read(
    config: Config, compiled: Compiled, tmp_path: Path, raw: bytes, message: str
) -> None:
    (tmp_path / "io.npz").write_bytes(raw)
    with pytest.raises(UserError, match=message):
        make_cases(with_vectors(config, tmp_path / "io.npz"), compiled)
