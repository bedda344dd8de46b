# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The sweep of all row functions: what it covers, that it notices, and the sweep itself.

MCUFUSE_SWEEP_CASES=n changes the number of cases of the long one.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import kernel_sweep
import mcufuse
from kernel_harness import Case, oracle_of
from kernel_sweep import ROW_FUNCTION, offered, row_functions, sweep
from kernel_sweep_cases import MAKERS, input_sets
from mcufuse.ir import Add, AvgPool2D, Bottleneck, Conv2D, DepthwiseConv2D, Lut, MaxPool2D, Op, Rounding
from mcufuse.kernels import KERNELS
from mcufuse.target import CORES, core_by_name

CASES = int(os.environ.get("MCUFUSE_SWEEP_CASES", "2000"))
M55 = core_by_name("cortex-m55")


def test_each_kernel_has_a_maker() -> None:
    assert MAKERS.keys() == KERNELS.keys()


def test_the_headers_have_the_row_functions_that_the_generator_names() -> None:
    """Both ways: a row function that no kernel names would never be called, nor tested."""
    named = set()
    for path in (Path(mcufuse.__file__).parent / "kernels").glob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        named |= {text for text in texts if isinstance(text, str) and text.startswith("mf_") and "_row_" in text}
    documented = {name for name in named if " " in name or "\n" in name}
    assert named - documented == row_functions(M55)


def test_row_functions_are_told_by_their_signature() -> None:
    row = "(const struct a_cfg *cfg, const struct a_data *data,\n\tconst int8_t *const *in, "
    row += "int8_t *out, int tick,{}void *s)"
    text = f"MF_INLINE void mf_a_row_8{row.format(' ')}\nMF_INLINE void\nmf_b_row_8_dsp{row.format(chr(10))}\n"
    text += "MF_INLINE void mf_last_row(const struct a_cfg *cfg, const struct a_data *data, const int8_t *in, int x)\n"
    assert ROW_FUNCTION.findall(text) == ["mf_a_row_8", "mf_b_row_8_dsp"]


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_every_row_function_is_offered(core: object) -> None:
    assert isinstance(core, type(M55))
    assert set().union(*(offered(kind, core, 60) for kind in MAKERS)) == row_functions(core)


def cases_of(kind: type[Op], count: int) -> list[Case]:
    return [MAKERS[kind](np.random.default_rng([1, i]), list(Rounding)[i % 3], i) for i in range(count)]


@pytest.mark.parametrize("kind", [Conv2D, DepthwiseConv2D])
def test_shapes_and_numbers_are_covered(kind: type[Conv2D | DepthwiseConv2D]) -> None:
    cases = cases_of(kind, 2000)
    ops = [case.op for case in cases]
    in_c = [case.graph.tensors[case.op.inputs[0]].shape[3] for case in cases]
    out_c = [case.graph.tensors[case.op.output].shape[3] for case in cases]
    for counts in (in_c, out_c):
        assert min(counts) == 1
        assert max(counts) >= 299
        assert {c % 16 for c in counts} == set(range(16))
    assert {op.stride[0] for op in ops} == {op.stride[1] for op in ops} == {1, 2, 3}
    assert {op.dilation[1] for op in ops} == {1, 2, 3}
    for before, after in (("left", "right"), ("top", "bottom")):
        uneven = [getattr(op.padding, before) - getattr(op.padding, after) for op in ops]
        assert sum(n > 0 for n in uneven) > 100
        assert sum(n < 0 for n in uneven) > 100
    weights = [case.graph.tensors[case.op.inputs[1]].shape for case in cases]
    if kind is Conv2D:
        assert {op.groups for op in ops} >= {1, 2, 3, 4}
    else:
        assert {op.multiplier for op in ops} == {1, 2, 3, 4}
    windows = {shape[1:3] if kind is Conv2D else shape[:2] for shape in weights}
    assert windows >= {(1, 1), (3, 3), (1, 3), (3, 1), (5, 5), (1, 7), (7, 1)}
    zeros = [op.in_zero for op in ops] + [op.out_zero for op in ops]
    assert {-128, 0, 127} < set(zeros)
    assert len(set(zeros)) > 200
    shifts = [shift for op in ops for shift in op.requant.shift]
    assert min(shifts) <= -24
    assert max(shifts) >= 3
    assert any(max(op.requant.shift) - min(op.requant.shift) > 20 for op in ops)  # channels far apart
    assert len({op.clamp for op in ops}) > 200


def test_inputs_are_extreme() -> None:
    for i, case in enumerate(cases_of(MaxPool2D, 20)):
        _, one, alternating, _ = input_sets(np.random.default_rng(i), case, i)
        assert set(one[0].ravel().tolist()) == {127 if i % 2 else -128}
        assert set(alternating[0].ravel().tolist()) <= {-128, 127}


@pytest.mark.qemu
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind is Bottleneck else ()) for kind in MAKERS],
    ids=[kind.__name__ for kind in MAKERS],
)
def test_some_cases(kind: type[Op]) -> None:
    """Few, on the core that has all row functions."""
    (outcome,) = sweep([kind], [M55], 30, seed=2)
    assert not outcome.problems


@pytest.mark.qemu
def test_a_wrong_value_is_noticed() -> None:
    calls = []

    def wrong(case: Case) -> np.ndarray:
        calls.append(case)
        y = oracle_of(case).copy()
        if len(calls) == 37:  # the tenth case, its first input
            y.flat[-1] ^= 1
        return y

    with mock.patch.object(kernel_sweep, "oracle_of", wrong):
        (outcome,) = sweep([Lut], [core_by_name("m3")], 12)
    assert "case 9, mf_lut_row_8, input 0: byte" in outcome.problems[0]
    assert "1 failures" in outcome.problems[0]


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("spoilt", "message"),
    [("out[-1] ^= 1;", "outside the output"), ("((int8_t *)scratch)[-1] ^= 1;", "outside the output or the scratch"),
     ("((int8_t *)in[0])[0] ^= 1;", "changed an operand")],
)  # fmt: skip
def test_a_stray_write_is_noticed(spoilt: str, message: str) -> None:
    whole = kernel_sweep.program
    call = "mf_max_pool2d_row_s8(&cfg, &data, in, out, tick, scratch);"
    spoil = f"{call} if (in[0] != NULL) {{ {spoilt} }}"
    with mock.patch.object(kernel_sweep, "program", lambda layouts: whole(layouts).replace(call, spoil)):
        (outcome,) = sweep([MaxPool2D], [core_by_name("m3")], 3)
    assert message in outcome.problems[0]


@pytest.mark.qemu
def test_a_function_out_of_reach_is_noticed() -> None:
    with mock.patch.object(kernel_sweep, "ATTEMPTS", 2), mock.patch.dict(MAKERS, {AvgPool2D: MAKERS[Add]}):
        (outcome,) = sweep([AvgPool2D], [core_by_name("m3")], 3)
        assert not outcome.problems  # additions
    outcomes = list(sweep([Lut], [M55], 1))
    assert "cortex-m55: mf_add_row_s8 never ran" in kernel_sweep.unreached(outcomes, [M55])


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_all_cores(kind: type[Op]) -> None:
    problems = [problem for outcome in sweep([kind], CORES, CASES, constant=10) for problem in outcome.problems]
    assert not problems
