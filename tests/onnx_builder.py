# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Builds small quantized ONNX models for tests, and runs them in ONNX Runtime.

m = Model(opset=13)
x = m.input("x", (1, 3, 8, 8))                    # quantized input, dequantized
y = m.node("Conv", [x, m.weights((4, 3, 3, 3))])  # float operators
m.output(m.quantize(y))                           # the scale is calibrated by running what there is so far
m.bytes()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
_TYPES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


def session(data: bytes, optimize: bool) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


class Model:
    """A model under construction. `dtype` is that of activations."""

    def __init__(self, opset: int = 13, dtype: str = "int8", seed: int = 1) -> None:
        self.opset = opset
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[tuple[str, str, Sequence[int | str]]] = []
        self.outputs: list[tuple[str, str, Sequence[int | str] | None]] = []
        self.params: dict[str, tuple[float, int]] = {}  # quantized value -> scale, zero
        self._count = 0

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def const(self, array: Any, dtype: str | None = None) -> str:
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def raw_input(self, name: str, shape: Sequence[int | str], dtype: str | None = None) -> str:
        self.inputs.append((name, dtype or self.dtype, shape))
        return name

    def input(self, name: str, shape: Sequence[int | str], scale: float = 0.05, zero: int | None = None) -> str:
        self.raw_input(name, shape)
        return self.dequantize(name, scale, self.default_zero() if zero is None else zero)

    def default_zero(self) -> int:
        return 7 if self.dtype == "int8" else 133

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [self.name(op.lower()) for _ in range(outputs)]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(
            helper.make_node(op, list(inputs), names, name=self.name(f"n_{op}"), domain=domain, **attributes)
        )
        return names[0] if outputs == 1 else names

    def qparams(self, scale: float, zero: int, dtype: str | None = None) -> list[str]:
        return [self.const(scale, "float32"), self.const(zero, dtype or self.dtype)]

    def dequantize(self, x: str, scale: float, zero: int, dtype: str | None = None) -> str:
        self.params[x] = (scale, zero)
        return str(self.node("DequantizeLinear", [x, *self.qparams(scale, zero, dtype)]))

    def quantize(self, x: str, scale: float | None = None, zero: int | None = None) -> str:
        """QuantizeLinear; with no scale given, one that suits what ONNX Runtime computes for random inputs."""
        if scale is None:
            scale, zero = self.calibrate(x)
        result = str(self.node("QuantizeLinear", [x, *self.qparams(scale, zero or 0)]))
        self.params[result] = (scale, zero or 0)
        return result

    def requantize(self, x: str, scale: float | None = None, zero: int | None = None) -> str:
        """QuantizeLinear and DequantizeLinear."""
        q = self.quantize(x, scale, zero)
        return self.dequantize(q, *self.params[q])

    def calibrate(self, x: str) -> tuple[float, int]:
        values = np.concatenate([np.ravel(v) for v in self.run_partial(x)])
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        scale = float(np.float32(max(high - low, 1e-3) / 255 * 0.9))  # some outputs saturate
        lowest = -128 if self.dtype == "int8" else 0
        return scale, int(np.clip(round(lowest - low / scale), lowest, lowest + 255))

    def run_partial(self, x: str) -> list[Array]:
        data = self.bytes([(x, "float32", None)])
        run = session(data, False)
        return [run.run(None, self.feed(seed))[0] for seed in range(3)]

    def weights(
        self, shape: Sequence[int], channels: int | None = 0, dtype: str = "int8", zero: int | None = None
    ) -> str:
        """Dequantized random weights; one scale per slice of axis `channels`, or per tensor if it is None."""
        codes = self.rng.integers(-127, 128, shape)
        offset = (128 if dtype == "uint8" else 0) if zero is None else zero
        data = self.const(codes + offset, dtype)
        count = 1 if channels is None else shape[channels]
        scales = self.rng.uniform(0.001, 0.02, count).astype(np.float32)
        if channels is None:
            return str(self.node("DequantizeLinear", [data, *self.qparams(float(scales[0]), offset, dtype)]))
        zeros = self.const(np.full(count, offset), dtype)
        return str(self.node("DequantizeLinear", [data, self.const(scales), zeros], axis=channels))

    def output(self, name: str, dtype: str | None = None, shape: Sequence[int | str] | None = None) -> None:
        self.outputs.append((name, dtype or self.dtype, shape))

    def proto(self, outputs: Sequence[tuple[str, str, Sequence[int | str] | None]] | None = None) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info(n, _TYPES[d], s) for n, d, s in self.inputs],
            [helper.make_tensor_value_info(n, _TYPES[d], s) for n, d, s in outputs or self.outputs],
            self.initializers,
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=min(10, onnx.IR_VERSION))

    def bytes(self, outputs: Sequence[tuple[str, str, Sequence[int | str] | None]] | None = None) -> bytes:
        return bytes(self.proto(outputs).SerializeToString())

    def feed(self, seed: int) -> dict[str, Array]:
        return {n: random_input(d, [1 if isinstance(v, str) else v for v in s], seed) for n, d, s in self.inputs}


def random_input(dtype: str, shape: Sequence[int], seed: int) -> Array:
    """Random values; every third seed gives extreme ones only, every third smooth ones."""
    rng = np.random.default_rng(seed + 1000)
    if dtype == "float32":
        return rng.normal(0, 2, shape).astype(np.float32)
    info = np.iinfo(dtype)
    if seed % 3 == 1:
        return rng.choice(np.asarray([info.min, info.max]), shape).astype(dtype)
    if seed % 3 == 2:
        ramp = np.sin(np.arange(np.prod(shape)) * 0.07 * (seed + 1)).reshape(shape) * 127
        return np.clip(np.rint(ramp) + (info.min + 128), info.min, info.max).astype(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)
