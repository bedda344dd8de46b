# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The test inputs of Python and of C are the same bits; the self-test finds what is wrong."""

from __future__ import annotations

import ctypes
import errno
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mcufuse.errors import UserError
from mcufuse.vectors import VectorCase, VectorKind, default_cases, emit_vectors_c, make_input

REPO = Path(__file__).resolve().parents[1]
TINY = Path(__file__).parent / "data" / "tiny"
GENERATED = (VectorKind.RANDOM, VectorKind.EXTREME, VectorKind.SMOOTH)
DTYPES = {np.int8: 0, np.uint8: 1, np.float32: 2}
SHAPES = ((7,), (640,), (49, 10), (49, 10, 1), (12, 11, 3), (3, 9, 17, 2))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_uint8),
        ("shape", ctypes.c_uint16 * 4),
        ("offset", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
    )


class Found(ctypes.Structure):
    _fields_ = (
        *((n, ctypes.c_uint32) for n in ("cases_run", "cases_failed", "case_index", "output", "index")),
        ("got", ctypes.c_int32),
        ("want", ctypes.c_int32),
        ("clock", ctypes.c_void_p),
        ("elapsed", ctypes.c_uint32),
    )


def shared_library(out: Path, sources: Sequence[Path], *flags: str) -> ctypes.CDLL:
    firmware = REPO / "firmware"
    runtime = [firmware / "src" / "mcufuse.c", firmware / "src" / "vectors.c"]
    checks = ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-static-libubsan"]
    command = ["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *checks, *flags]
    subprocess.run([*command, f"-I{firmware / 'include'}", *runtime, *sources, "-o", out], check=True, timeout=60)
    return ctypes.CDLL(str(out))


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return shared_library(tmp_path_factory.mktemp("vectors") / "vectors.so", [])


def c_input(
    c: ctypes.CDLL,
    kind: VectorKind,
    seed: int,
    dtype: type[np.generic],
    shape: Sequence[int],
    *,
    index: int = 0,
    exponent: int = 0,
    first: int = 0,
    count: int,
) -> npt.NDArray[np.generic]:
    tensor = Tensor(b"x", DTYPES[dtype], len(shape), (ctypes.c_uint16 * 4)(*shape), 0, 0, 1.0, 0)
    got = np.zeros(count, dtype)
    c.mcufuse_vectors_fill(
        got.ctypes.data_as(ctypes.c_void_p),
        ctypes.byref(tensor),
        ctypes.c_uint(index),
        ctypes.c_int(kind),
        ctypes.c_uint32(seed),
        ctypes.c_int(exponent),
        ctypes.c_uint32(first),
        ctypes.c_uint32(count),
    )
    return got


@pytest.mark.parametrize("kind", GENERATED)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_c_and_python_agree(c: ctypes.CDLL, kind: VectorKind, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    for seed, index, exponent in ((0, 0, 0), (1, 1, -3), (0xFFFFFFFF, 2, 9)):
        want = make_input(kind, seed, dtype, shape, index=index, exponent=exponent)
        assert want.shape == shape
        got = c_input(c, kind, seed, dtype, shape, index=index, exponent=exponent, count=want.size)
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", GENERATED)
def test_any_range_can_be_made_on_its_own(c: ctypes.CDLL, kind: VectorKind) -> None:
    whole = make_input(kind, 7, np.int8, (12, 11, 3)).reshape(-1)
    for first, count in ((0, 33), (33, 33), (100, 1), (395, 1), (50, 0), (1, 395)):
        part = whole[first : first + count].tobytes()
        assert c_input(c, kind, 7, np.int8, (12, 11, 3), first=first, count=count).tobytes() == part
        assert make_input(kind, 7, np.int8, (12, 11, 3), first=first, count=count).tobytes() == part


def test_kinds_are_what_they_say() -> None:
    shape = (64, 64, 3)
    random = make_input(VectorKind.RANDOM, 1, np.int8, shape)
    assert set(np.unique(random)) == set(range(-128, 128))
    assert abs(float(random.mean()) + 0.5) < 2
    extreme = make_input(VectorKind.EXTREME, 1, np.int8, shape)
    assert np.unique(extreme).tolist() == [-128, 127]
    assert 0.45 < float((extreme == 127).mean()) < 0.55
    smooth = make_input(VectorKind.SMOOTH, 1, np.uint8, shape).astype(int)
    assert max(np.abs(np.diff(smooth, axis=0)).max(), np.abs(np.diff(smooth, axis=1)).max()) <= 32
    assert int(smooth.max()) - int(smooth.min()) > 200
    assert np.abs(np.diff(smooth, axis=2)).max() > 100  # each channel on its own
    for kind in GENERATED:
        for exponent in (-5, 0, 8):
            real = make_input(kind, 3, np.float32, shape, exponent=exponent)
            assert np.abs(real).max() <= 2.0**exponent
            assert np.abs(real).max() > 2.0 ** (exponent - 1)
    assert (make_input(VectorKind.RANDOM, 1, np.int8, shape) != make_input(VectorKind.RANDOM, 2, np.int8, shape)).any()
    other = make_input(VectorKind.RANDOM, 1, np.int8, shape, index=1)
    assert (random != other).mean() > 0.9


def tiny_reference(x: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    weights = np.array([3, -7, 12, 9, -1, 8, 5, -16, 2, 11, -4, 6, 10, -9, 7, 1])
    scaled = np.clip((x.reshape(4, 16).astype(int) * weights) >> 3, -128, 127).reshape(8, 8)
    return np.clip(scaled.sum(axis=1), -128, 127).astype(np.int8)


def tiny_cases(count: int = 7) -> list[VectorCase]:
    cases = []
    for case in default_cases(count):
        x = make_input(case.kind, case.seed, np.int8, (4, 4, 4))
        cases.append(VectorCase(case.kind, case.seed, expected=(tiny_reference(x),)))
    x = np.arange(-32, 32, dtype=np.int8).reshape(4, 4, 4)
    return [*cases, VectorCase(VectorKind.STORED, inputs=(x,), expected=(tiny_reference(x),))]


def selftest(tmp_path: Path, cases: list[VectorCase], model: Path, *, row_bytes: int = 0) -> tuple[int, Found]:
    source, header = emit_vectors_c(model.stem, cases, row_bytes=row_bytes)
    (tmp_path / f"{model.stem}_vectors.h").write_text(header)
    file = tmp_path / f"{model.stem}_vectors.c"
    file.write_text(source)
    lib = shared_library(tmp_path / "selftest.so", [file, model], f"-I{tmp_path}", f"-I{TINY}")
    found = Found()
    return lib.mcufuse_selftest(
        ctypes.byref(ctypes.c_char.in_dll(lib, f"{model.stem}_vectors")), ctypes.byref(found)
    ), found


def test_selftest_passes(tmp_path: Path) -> None:
    code, found = selftest(tmp_path, tiny_cases(), TINY / "tiny.c")
    assert (code, found.cases_run, found.cases_failed) == (0, 8, 0)


def test_selftest_tells_the_first_difference(tmp_path: Path) -> None:
    cases = tiny_cases()
    wrong = cases[2].expected[0].copy()
    wrong[5] ^= 1
    cases[2] = VectorCase(cases[2].kind, cases[2].seed, expected=(wrong,))
    cases[4] = VectorCase(cases[4].kind, cases[4].seed, expected=(wrong,))
    code, found = selftest(tmp_path, cases, TINY / "tiny.c")
    assert (code, found.cases_run, found.cases_failed) == (-errno.EBADMSG, 8, 2)
    assert (found.case_index, found.output, found.index, found.want) == (2, 0, 5, int(wrong[5]))
    assert found.got == found.want ^ 1


def test_selftest_feeds_rows(tmp_path: Path) -> None:
    cases = []
    for case in default_cases(6):
        x = make_input(case.kind, case.seed, np.int8, (6, 5, 2)).astype(np.int64)
        sums = np.cumsum(x.sum(axis=(1, 2)))
        cases.append(VectorCase(case.kind, case.seed, expected=((sums & 0xFF).astype(np.uint8).view(np.int8),)))
    x8 = np.arange(60, dtype=np.int8).reshape(6, 5, 2)
    want = np.cumsum(x8.astype(int).sum(axis=(1, 2))).astype(np.uint8).view(np.int8)
    cases.append(VectorCase(VectorKind.STORED, inputs=(x8,), expected=(want,)))
    code, found = selftest(tmp_path, cases, TINY / "rows.c", row_bytes=10)
    assert (code, found.cases_run, found.cases_failed) == (0, 7, 0)


def test_a_network_fed_by_rows_needs_room_for_a_row(tmp_path: Path) -> None:
    code, found = selftest(tmp_path, tiny_cases(1), TINY / "rows.c", row_bytes=0)
    assert (code, found.cases_run) == (-errno.EINVAL, 0)


def test_a_case_without_expected_outputs_is_refused() -> None:
    with pytest.raises(UserError, match="case 1: it has no expected outputs"):
        emit_vectors_c("net", [*tiny_cases(1)[:1], VectorCase(VectorKind.RANDOM)])
    with pytest.raises(UserError, match="no cases"):
        emit_vectors_c("net", [])
