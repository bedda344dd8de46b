# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/compare_cmsis_nn.py, without CMSIS-NN: a stand-in with its interface computes fully connected layers."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from conftest import MODELS, REPO
from mcufuse.bylayer import compile_alone
from mcufuse.config import load_config
from mcufuse.target import core_by_name

KWS, AD = MODELS / "kws_int8.tflite", MODELS / "ad_int8.tflite"

HEADER = """\
#include <stdint.h>
#include <string.h>
typedef struct { void *buf; int32_t size; } cmsis_nn_context;
typedef struct { int32_t n, h, w, c; } cmsis_nn_dims;
typedef struct { int32_t *multiplier; int32_t *shift; int32_t is_per_channel; } cmsis_nn_quant_params;
typedef struct { int32_t min, max; } cmsis_nn_activation;
typedef struct {
	int32_t input_offset, filter_offset, output_offset;
	cmsis_nn_activation activation;
} cmsis_nn_fc_params;
int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter);
int32_t arm_vector_sum_s8(int32_t *sums, int32_t cols, int32_t rows, const int8_t *data, int32_t lhs_offset,
			int32_t rhs_offset, const int32_t *bias);
int32_t arm_fully_connected_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *params,
				const cmsis_nn_quant_params *quant, const cmsis_nn_dims *in, const int8_t *x,
				const cmsis_nn_dims *filter, const int8_t *w, const cmsis_nn_dims *bias,
				const int32_t *b, const cmsis_nn_dims *out, int8_t *y);
"""

SOURCE = """\
#include "arm_nnfunctions.h"
int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter)
{
	return filter->c * 4;
}
int32_t arm_vector_sum_s8(int32_t *sums, int32_t cols, int32_t rows, const int8_t *data, int32_t lhs_offset,
			int32_t rhs_offset, const int32_t *bias)
{
	(void)rhs_offset;
	for (int32_t r = 0; r < rows; r++) {
		sums[r] = bias[r];
		for (int32_t c = 0; c < cols; c++) {
			sums[r] += data[r * cols + c] * lhs_offset;
		}
	}
	return 0;
}
int32_t arm_fully_connected_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *params,
				const cmsis_nn_quant_params *quant, const cmsis_nn_dims *in, const int8_t *x,
				const cmsis_nn_dims *filter, const int8_t *w, const cmsis_nn_dims *bias,
				const int32_t *b, const cmsis_nn_dims *out, int8_t *y)
{
	(void)in, (void)bias, (void)b;
	if (out->c == REFUSED) {
		return -1;
	}
	for (int32_t r = 0; r < out->c; r++) {
		const int32_t s = quant->is_per_channel ? r : 0, right = -quant->shift[s];
		int32_t sum = ((const int32_t *)ctx->buf)[r];
		for (int32_t c = 0; c < filter->n; c++) {
			sum += x[c] * w[r * filter->n + c];
		}
		sum = (int32_t)(((int64_t)sum * quant->multiplier[s] + (sum < 0 ? 1 - (1 << 30) : 1 << 30)) / (1LL << 31));
		if (right > 0) {
			sum = ((sum < 0 ? -1 : 0) + sum + (1 << (right - 1))) >> right;
		}
		sum += params->output_offset;
		sum = sum < params->activation.min ? params->activation.min : sum;
		y[r] = (int8_t)(sum > params->activation.max ? params->activation.max : sum);
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_cmsis_nn", REPO / "scripts" / "compare_cmsis_nn.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """Sources that look like CMSIS-NN's; a layer with 8 outputs is refused."""
    (tmp_path / "Include").mkdir()
    (tmp_path / "Source" / "FullyConnectedFunctions").mkdir(parents=True)
    (tmp_path / "Include" / "arm_nnfunctions.h").write_text(HEADER)
    source = tmp_path / "Source" / "FullyConnectedFunctions" / "arm_fully_connected_wrapper_s8.c"
    source.write_text(SOURCE.replace("REFUSED", "8"))
    source.with_name("arm_fully_connected_f32.c").write_text("#error no float functions are needed\n")
    return tmp_path


@pytest.mark.parametrize("given", [[], ["--cmsis-nn", "nowhere"], ["--cmsis-nn", str(REPO)]])
def test_sources_are_missing(script: ModuleType, capsys: pytest.CaptureFixture[str], given: list[str]) -> None:
    assert script.main([*given, str(KWS)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "git clone https://github.com/ARM-software/CMSIS-NN" in said
    assert len(said.splitlines()) == 2
    assert not given or given[1] in said


def test_wrong_arguments(script: ModuleType, stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, message in ((["--core", "m99", str(KWS)], 'unknown core "m99"'), (["none.tflite"], "none.tflite")):
        assert script.main(["--cmsis-nn", str(stand_in), *given]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        script.main([])
    assert ended.value.code == 2


def test_calls_hold_the_layers_constants(script: ModuleType) -> None:
    compiled = compile_alone(load_config(KWS), core_by_name("m4"))
    program = script.make_program(compiled)
    assert not program.missing
    text = program.text(Path("/blob.bin"))
    functions = re.split(r"static int32_t layer_\d+\(int prepare\)\n", text)[1:]
    assert len(functions) == len(compiled.steps)
    names = {"Conv2D": "arm_convolve_wrapper_s8", "DepthwiseConv2D": "arm_depthwise_conv_wrapper_s8"}
    seen = 0
    for step, function in zip(compiled.steps, functions, strict=True):
        name = names.get(step.op.kind)
        if name is None:
            continue
        seen += 1
        op, graph = step.op, compiled.graph
        assert f".input_offset = {-op.in_zero}, .output_offset = {op.out_zero}" in function
        assert f".padding = {{.h = {op.padding.top}, .w = {op.padding.left}}}" in function
        assert (
            f"static const cmsis_nn_dims out = {{1, {', '.join(map(str, graph.tensors[op.output].hwc))}}};" in function
        )
        found = re.search(rf"return {name}\(.*&filter, \(const int8_t \*\)\(blob \+ (\d+)\)", function)
        assert found is not None
        weights = graph.const(op.inputs[1])
        at = int(found[1])
        assert bytes(program.blob.data[at : at + weights.nbytes]) == np.ascontiguousarray(weights).tobytes()
    assert seen == 9


@pytest.mark.qemu
def test_compares(script: ModuleType, stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--cmsis-nn", str(stand_in), "--core", "m3", "--opt", "O1", "-q", str(AD)]
    assert script.main([*given, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    refused = [layer for layer in found["layers"] if layer["note"]]
    assert [layer["note"] for layer in refused] == ["CMSIS-NN refuses it, status -1"]
    for layer in found["layers"]:
        theirs = layer["cmsis_nn"]["-O1"]
        assert theirs["equal"] is (layer not in refused)
        assert layer in refused or theirs["instructions"] > layer["macs"]
        assert theirs["scratch_bytes"] > 0
    totals = found["totals"]
    compared = [layer for layer in found["layers"] if layer not in refused]
    assert totals["compared"] == len(compared) == 9
    assert totals["mcufuse"] == sum(layer["mcufuse"] for layer in compared)
    assert totals["better_of_both"] <= min(totals["mcufuse"], totals["cmsis_nn"]["-O1"])
    assert script.main(given) == 0
    shown = capsys.readouterr().out
    assert "9 of 10" in shown
    assert "DIFFER" not in shown
