# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Bottlenecks in strips: C against the oracle on the host, and the oracle against the three operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernel_harness import Case, check_cases, lowerings, single_op_graph
from kernel_random import conv_case, depthwise_case
from mcufuse.ir import Bottleneck, Graph, Rounding, Tensor
from mcufuse.kernels import kernel_of
from mcufuse.kernels.bottleneck import BottleneckKernel, strip_plan, unfold
from mcufuse.oracle import evaluate
from mcufuse.verify import BrokenGraph, verify

Rng = np.random.Generator


def renamed(case: Case, prefix: str) -> list[Tensor]:
    """The constants of a case under other names."""
    return [replace(case.graph.tensors[n], name=prefix + n) for n in case.op.inputs[1:]]


def bottleneck_case(rng: Rng, rounding: Rounding, *, strips: int = 0, **fixed: int) -> Case:
    """A random bottleneck; `fixed` may give h, w, in_c, middle, out_c, and what `depthwise_case` takes."""
    sizes = {"h": int(rng.integers(1, 8)), "w": int(rng.integers(1, 18)), **fixed}
    in_c, middle, out_c = (
        sizes.pop(name, int(rng.integers(1, most))) for name, most in (("in_c", 9), ("middle", 21), ("out_c", 13))
    )
    one = {"k_h": 1, "k_w": 1, "stride": 1, "dilation": 1, "groups": 1}
    while True:
        depthwise = depthwise_case(rng, rounding, in_c=middle, multiplier=1, **sizes)
        h, w, _ = depthwise.graph.tensors["x"].hwc
        expand = conv_case(rng, rounding, h=h, w=w, in_c=in_c, out_c=middle, **one)
        out_h, out_w, _ = depthwise.graph.tensors["y"].hwc
        project = conv_case(rng, rounding, h=out_h, w=out_w, in_c=middle, out_c=out_c, **one)
        constants = [*renamed(expand, "e"), *renamed(depthwise, "d"), *renamed(project, "p")]
        op = Bottleneck(
            name="block", inputs=("x", *(t.name for t in constants)), output="y", expand=expand.op,
            depthwise=depthwise.op, project=project.op, strips=min(strips or int(rng.integers(1, 7)), out_w),
        )  # fmt: skip
        graph = single_op_graph(op, [expand.graph.tensors["x"], *constants], project.graph.tensors["y"])
        try:
            verify(graph)
        except BrokenGraph as broken:
            assert "holds a whole window" in str(broken)
        else:
            return Case(graph, op, expand.inputs)


def cases_of(seed: int, count: int, **fixed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [bottleneck_case(rng, list(Rounding)[i % 3], **fixed) for i in range(count)]


@pytest.mark.parametrize(("core", "opt"), [("cortex-m3", "-O0"), ("cortex-m4", "-Os"), ("cortex-m4", "-O2")])
def test_random(core: str, opt: str) -> None:
    check_cases(cases_of(1, 5), core=core, opt=opt)


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_random_sanitized(core: str) -> None:
    check_cases(cases_of(2, 2), core=core, opt="-O1", sanitize=True)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_every_number_of_strips(stride: int, kernel: int) -> None:
    rng = np.random.default_rng([stride, kernel])
    shape = {"k_h": kernel, "k_w": kernel, "stride": stride, "dilation": 1, "h": 6, "w": 13}
    cases = [bottleneck_case(rng, Rounding.TFLITE, strips=n, **shape) for n in (1, 2, 4, 13)]
    check_cases(cases, core="cortex-m4", opt="-O2")


@pytest.mark.slow
def test_many() -> None:
    for seed in range(20):
        check_cases(cases_of(100 + seed, 4), core="cortex-m4", opt="-O1", sanitize=True)


def test_the_oracle_is_the_three_operators() -> None:
    for case in cases_of(3, 10):
        assert isinstance(case.op, Bottleneck)
        whole = unfold(case.op, case.graph)
        verify(whole)
        assert np.array_equal(evaluate(case.graph, case.inputs)[0], evaluate(whole, case.inputs)[0])


def test_the_fast_functions_are_used() -> None:
    case = bottleneck_case(np.random.default_rng(4), Rounding.TFLITE, k_h=3, k_w=3, stride=1, dilation=1, h=6, w=12)
    functions = [low.function for low in lowerings(case, "cortex-m4")]
    assert functions == ["mf_bottleneck_row_s8", "mf_bottleneck_row_s8_dsp", "mf_bottleneck_any_row_s8_dsp"]
    assert [low.function for low in lowerings(case, "cortex-m3")] == ["mf_bottleneck_row_s8"]


def counted_macs(op: Bottleneck, graph: Graph) -> int:
    """Multiply-accumulates by walking over every pixel that the C computes."""
    strips = strip_plan(op, graph)
    _, in_w, in_c = graph.tensors[op.inputs[0]].hwc
    in_h = graph.tensors[op.inputs[0]].hwc[0]
    out_h, _, out_c = graph.tensors[op.output].hwc
    k_h, k_w, middle = graph.tensors[op.inputs[3]].shape
    (s_h, s_w), (d_h, _), pad = op.depthwise.stride, op.depthwise.dilation, op.depthwise.padding
    count = 0
    for y in range(out_h):
        for first in strips.firsts:
            for i in range(k_h):
                if 0 <= y * s_h - pad.top + i * d_h < in_h:
                    for x in range(strips.columns):
                        count += in_c * middle * (0 <= first * s_w - pad.left + x < in_w)
            count += strips.width * middle * (k_h * k_w + out_c)
    return count


def test_macs_are_those_executed() -> None:
    for case in cases_of(5, 20):
        assert isinstance(case.op, Bottleneck)
        macs = kernel_of(case.op).macs(case.op, case.graph)
        whole = unfold(case.op, case.graph)
        assert macs == counted_macs(case.op, case.graph)
        unfused = sum(kernel_of(op).macs(op, whole) for op in whole.ops)
        assert BottleneckKernel().recomputed_macs(case.op, case.graph) == macs - unfused


def test_more_strips_need_less_scratch() -> None:
    rng = np.random.default_rng(6)
    shape = {"h": 8, "w": 24, "k_h": 3, "k_w": 3, "stride": 1, "dilation": 1, "in_c": 4, "middle": 16}
    case = bottleneck_case(rng, Rounding.TFLITE, strips=1, **shape)
    scratch, macs = [], []
    for strips in (1, 2, 4, 8):
        op = replace(case.op, strips=strips)
        cut = Case(replace(case.graph, ops=(op,)), op, case.inputs)
        scratch.append(lowerings(cut, "cortex-m3")[0].scratch_bytes)
        macs.append(kernel_of(op).macs(op, cut.graph))
    assert scratch == sorted(scratch, reverse=True)
    assert macs == sorted(macs)
