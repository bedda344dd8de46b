# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from kernel_cases import CHANNELS, case, check, extreme_map, random_map, requant_of, tensor
from kernel_harness import Case
from mcufuse.ir import AvgPool2D, Clamp, MaxPool2D, Padding, Requant, Rounding
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import LowerContext, Refusal
from mcufuse.target import core_by_name

FULL = Clamp()


def geometry(rng: np.random.Generator) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], Padding]:
    """(height, width), kernel, stride, padding; padding below the kernel size so that no window is empty."""
    kernel = tuple(rng.integers(1, 5, 2).tolist())
    stride = tuple(rng.integers(1, 4, 2).tolist())
    size = tuple(int(rng.integers(k, k + 6)) for k in kernel)
    top, bottom = (int(rng.integers(0, kernel[0])) for _ in range(2))
    left, right = (int(rng.integers(0, kernel[1])) for _ in range(2))
    return size, kernel, stride, Padding(top, left, bottom, right)


def output_shape(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], pad: Padding, c: int
) -> tuple[int, ...]:
    out_h = (size[0] + pad.top + pad.bottom - kernel[0]) // stride[0] + 1
    out_w = (size[1] + pad.left + pad.right - kernel[1]) // stride[1] + 1
    return 1, out_h, out_w, c


def max_case(rng: np.random.Generator, channels: int, clamp: Clamp = FULL) -> Case:
    size, kernel, stride, pad = geometry(rng)
    shape = (1, *size, channels)
    op = MaxPool2D(name="p", inputs=("x",), output="y", kernel=kernel, stride=stride, padding=pad, clamp=clamp)
    return case(
        op,
        [tensor("x", shape)],
        tensor("y", output_shape(size, kernel, stride, pad, channels)),
        [random_map(rng, shape)],
    )


def avg_case(rng: np.random.Generator, channels: int, rounding: Rounding | None, count_padding: bool = False) -> Case:
    size, kernel, stride, pad = geometry(rng)
    shape = (1, *size, channels)
    requant = None
    in_zero = out_zero = 0
    if rounding is not None:
        ratio = float(rng.uniform(0.5, 2))
        entries = [requant_of(ratio / n, rounding) for n in range(1, kernel[0] * kernel[1] + 1)]
        requant = Requant(tuple(e.multiplier[0] for e in entries), tuple(e.shift[0] for e in entries), rounding)
        in_zero, out_zero = rng.integers(-128, 128, 2).tolist()
    op = AvgPool2D(
        name="p", inputs=("x",), output="y", kernel=kernel, stride=stride, padding=pad, count_padding=count_padding,
        in_zero=in_zero, out_zero=out_zero, requant=requant, clamp=Clamp(int(rng.choice([-128, -5])), 127),
    )  # fmt: skip
    make = extreme_map if rng.random() < 0.3 else random_map
    return case(
        op, [tensor("x", shape)], tensor("y", output_shape(size, kernel, stride, pad, channels)), [make(rng, shape)]
    )


def test_max_pool() -> None:
    rng = np.random.default_rng(1)
    clamps = (Clamp(), Clamp(-20, 127), Clamp(-128, 33), Clamp(-3, 40))
    check([max_case(rng, channels, clamps[i % 4]) for i, channels in enumerate((*CHANNELS, 300))])


def test_avg_pool_by_division() -> None:
    rng = np.random.default_rng(2)
    check([avg_case(rng, channels, None) for channels in (*CHANNELS, 300)])


def test_avg_pool_with_scales() -> None:
    rng = np.random.default_rng(3)
    check([avg_case(rng, c, r, padding) for c, r, padding in product((1, 7), Rounding, (False, True))])


def test_large_windows_leave_the_lanes() -> None:
    """More than 256 values in a window do not fit 16 bits."""
    rng = np.random.default_rng(4)
    cases = []
    for kernel in ((16, 16), (16, 17), (1, 300)):
        shape = (1, kernel[0] + 1, kernel[1] + 1, 5)
        op = AvgPool2D(name="p", inputs=("x",), output="y", kernel=kernel)
        x = np.full(shape, -128, np.int8) if kernel[0] == 16 else extreme_map(rng, shape)
        cases.append(case(op, [tensor("x", shape)], tensor("y", (1, 2, 2, 5)), [x]))
    check(cases)


def test_halves_go_away_from_zero() -> None:
    op = AvgPool2D(name="p", inputs=("x",), output="y", kernel=(1, 2), stride=(1, 2))
    x = np.array([1, 2, -1, -2, 3, 4, -3, -4, 0, -1], np.int8).reshape(1, 1, 10, 1)
    c = case(op, [tensor("x", x.shape)], tensor("y", (1, 1, 5, 1)), [x])
    assert kernel_of(op).evaluate(op, c.graph, [x]).ravel().tolist() == [2, -2, 4, -4, -1]
    check([c])


def test_an_empty_window_is_refused() -> None:
    op = AvgPool2D(name="p", inputs=("x",), output="y", kernel=(2, 2), stride=(2, 2), padding=Padding(2, 0, 0, 0))
    c = case(op, [tensor("x", (1, 2, 2, 1))], tensor("y", (1, 2, 1, 1)), [np.zeros((1, 2, 2, 1), np.int8)])
    (way,) = kernel_of(op).lower(op, LowerContext(c.graph, core_by_name("m3")))
    assert isinstance(way, Refusal)
    assert "padding" in way.reason


@pytest.mark.slow
def test_many_pools() -> None:
    rng = np.random.default_rng(5)
    check([max_case(rng, int(rng.integers(1, 301))) for _ in range(40)])
    check([avg_case(rng, int(rng.integers(1, 301)), None) for _ in range(40)])
