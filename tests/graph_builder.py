# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Builds graphs with random weights for tests: layer by layer, shapes inferred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcufuse.arith import quantize_multiplier
from mcufuse.ir import (
    Add,
    AvgPool2D,
    Clamp,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    DType,
    FullyConnected,
    Graph,
    Lut,
    MaxPool2D,
    Mean,
    Op,
    Pad,
    Padding,
    Quant,
    Requant,
    Reshape,
    ResizeNearest,
    Rounding,
    Softmax,
    Tensor,
)  # fmt: skip
from mcufuse.tables import softmax_exponents

__all__ = ["GraphBuilder", "mobilenet_v2", "random_graph"]


class GraphBuilder:
    """Each method adds one operator and returns the name of its output."""

    def __init__(self, seed: int = 0, rounding: Rounding = Rounding.TFLITE):
        self.rng = np.random.default_rng(seed)
        self.rounding = rounding
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []

    def input(self, *shape: int) -> str:
        """An s8 input."""
        name = f"input{len(self.inputs)}"
        self.tensors[name] = Tensor(name, shape, DType.S8, Quant((0.5,), (-3,)))
        self.inputs.append(name)
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.tensors[name].shape

    def requant(self, channels: int, scale: float) -> Requant:
        """Random per-channel multipliers round `scale`."""
        pairs = [quantize_multiplier(float(scale * f)) for f in self.rng.uniform(0.5, 1.5, channels)]
        return Requant(tuple(m for m, _ in pairs), tuple(s for _, s in pairs), self.rounding)

    def _const(self, data: np.ndarray, dtype: DType) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, data.shape, dtype, None, data.astype(dtype.value))
        return name

    def _weights(self, shape: Sequence[int], dead: float) -> str:
        data = self.rng.integers(-127, 128, tuple(shape))
        if dead:
            data[..., self.rng.random(shape[-1]) < dead] = 0
        return self._const(data, DType.S8)

    def _bias(self, channels: int, fan_in: int, dead: float) -> str:
        bias = self.rng.integers(-40, 41, channels) * fan_in
        bias[self.rng.random(channels) < dead] = -(1 << 24)  # such a channel always clamps
        return self._const(bias, DType.S32)

    def _emit(self, op_type: type[Op], x: Sequence[str], shape: Sequence[int], **fields: object) -> str:
        out = f"t{len(self.ops)}"
        self.tensors[out] = Tensor(out, tuple(shape), DType.S8, Quant((0.5,), (-3,)))
        self.ops.append(op_type(name=f"op{len(self.ops)}", inputs=tuple(x), output=out, **fields))  # type: ignore[arg-type]
        return out

    @staticmethod
    def same(size: int, kernel: int, stride: int) -> tuple[int, int, int]:
        """(output size, padding before, padding after) of SAME padding."""
        out = -(-size // stride)
        total = max((out - 1) * stride + kernel - size, 0)
        return out, total // 2, total - total // 2

    def conv(
        self, x: str, channels: int, kernel: tuple[int, int] = (1, 1), stride: int = 1, *, relu: bool = True,
        dead: float = 0.0, same: bool = True,
    ) -> str:  # fmt: skip
        """Convolution, SAME or VALID."""
        _, h, w, c = self.shape(x)
        (oh, top, bottom), (ow, left, right) = self._sizes(h, w, kernel, stride, same)
        weights = self._weights((channels, *kernel, c), 0.0)
        bias = self._bias(channels, kernel[0] * kernel[1] * c, dead)
        return self._emit(
            Conv2D, (x, weights, bias), (1, oh, ow, channels), stride=(stride, stride),
            padding=Padding(top, left, bottom, right), in_zero=-3, out_zero=-3,
            requant=self.requant(channels, 0.02 / np.sqrt(kernel[0] * kernel[1] * c)),
            clamp=Clamp(-3 if relu else -128, 127),
        )  # fmt: skip

    def depthwise(
        self, x: str, kernel: tuple[int, int] = (3, 3), stride: int = 1, *, dead: float = 0.0, same: bool = True
    ) -> str:
        """Depthwise convolution with multiplier 1."""
        _, h, w, c = self.shape(x)
        (oh, top, bottom), (ow, left, right) = self._sizes(h, w, kernel, stride, same)
        weights = self._weights((*kernel, c), 0.0)
        return self._emit(
            DepthwiseConv2D, (x, weights, self._bias(c, kernel[0] * kernel[1], dead)), (1, oh, ow, c),
            stride=(stride, stride), padding=Padding(top, left, bottom, right), in_zero=-3, out_zero=-3,
            requant=self.requant(c, 0.02 / np.sqrt(kernel[0] * kernel[1])), clamp=Clamp(-3, 127),
        )  # fmt: skip

    def _sizes(
        self, h: int, w: int, kernel: tuple[int, int], stride: int, same: bool
    ) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        if same:
            return self.same(h, kernel[0], stride), self.same(w, kernel[1], stride)
        return ((h - kernel[0]) // stride + 1, 0, 0), ((w - kernel[1]) // stride + 1, 0, 0)

    def dense(self, x: str, channels: int) -> str:
        """Fully connected layer over everything in x."""
        k = self.tensors[x].elements
        weights = self._weights((channels, k), 0.0)
        return self._emit(
            FullyConnected, (x, weights, self._bias(channels, k, 0.0)), (1, channels), in_zero=-3, out_zero=-3,
            requant=self.requant(channels, 0.02 / np.sqrt(k)),
        )  # fmt: skip

    def add(self, a: str, b: str) -> str:
        """Residual addition (TFLite's formula)."""
        half = Requant((1 << 30,), (0,), self.rounding)
        out = Requant((1 << 30,), (-18,), self.rounding)
        return self._emit(
            Add, (a, b), self.shape(a), lhs_zero=-3, rhs_zero=-3, out_zero=-3, lhs=half, rhs=half, out=out
        )

    def maxpool(self, x: str, kernel: int = 2, stride: int = 2) -> str:
        """Maximum, VALID."""
        _, h, w, c = self.shape(x)
        shape = (1, (h - kernel) // stride + 1, (w - kernel) // stride + 1, c)
        return self._emit(MaxPool2D, (x,), shape, kernel=(kernel, kernel), stride=(stride, stride))

    def avgpool(self, x: str, kernel: int = 2, stride: int = 2) -> str:
        """Average, VALID."""
        _, h, w, c = self.shape(x)
        shape = (1, (h - kernel) // stride + 1, (w - kernel) // stride + 1, c)
        return self._emit(AvgPool2D, (x,), shape, kernel=(kernel, kernel), stride=(stride, stride))

    def mean(self, x: str) -> str:
        """Global average."""
        return self._emit(Mean, (x,), (1, 1, 1, self.shape(x)[3]))

    def reshape(self, x: str, *shape: int) -> str:
        """The same bytes under another shape."""
        return self._emit(Reshape, (x,), shape)

    def table(self, x: str) -> str:
        """A random table."""
        return self._emit(Lut, (x,), self.shape(x), table=tuple(int(v) for v in self.rng.integers(-128, 128, 256)))

    def pad(self, x: str, amount: int, value: int = -3) -> str:
        """Rows and columns of `value` on all sides."""
        _, h, w, c = self.shape(x)
        shape = (1, h + 2 * amount, w + 2 * amount, c)
        return self._emit(Pad, (x,), shape, padding=Padding(amount, amount, amount, amount), value=value)

    def concat(self, *x: str, axis: int = 2) -> str:
        """Joins rows, columns or channels."""
        shape = list(self.shape(x[0]))
        shape[axis + 1] = sum(self.shape(t)[axis + 1] for t in x)
        return self._emit(Concat, x, tuple(shape), axis=axis)

    def upsample(self, x: str) -> str:
        """Nearest neighbour, twice the size."""
        _, h, w, c = self.shape(x)
        rows, columns = (tuple(i // 2 for i in range(2 * n)) for n in (h, w))
        return self._emit(ResizeNearest, (x,), (1, 2 * h, 2 * w, c), rows=rows, columns=columns)

    def softmax(self, x: str) -> str:
        """Softmax over the last axis."""
        exponents = softmax_exponents(0.1, 1.0, self.rounding)
        return self._emit(Softmax, (x,), self.shape(x), rounding=self.rounding, exponents=exponents)

    def build(self, *outputs: str) -> Graph:
        """The graph; by default its last tensor is the output."""
        names = outputs or (self.ops[-1].output,)
        return Graph("test", self.tensors, tuple(self.ops), tuple(self.inputs), names)


def mobilenet_v2(width: float, size: int, *, classes: int = 1000, seed: int = 0) -> Graph:
    """MobileNetV2 (Sandler et al. 2018, table 2) with random weights; channels round to multiples of 8."""

    def channels(base: int, factor: float = width) -> int:
        value = base * factor
        rounded = max(8, int(value + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * value else rounded

    g = GraphBuilder(seed)
    x = g.conv(g.input(1, size, size, 3), channels(32), (3, 3), 2)
    for expansion, base, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(repeats):
            step = stride if i == 0 else 1
            inner = g.shape(x)[3]
            y = g.conv(x, inner * expansion) if expansion > 1 else x
            y = g.conv(g.depthwise(y, stride=step), channels(base), relu=False)
            x = g.add(y, x) if step == 1 and inner == channels(base) else y
    x = g.conv(x, channels(1280, max(1.0, width)))
    return g.build(g.dense(g.mean(x), classes))


def random_graph(seed: int) -> Graph:
    """A small graph of row-wise operators with branches, residuals, strides and odd sizes."""
    g = GraphBuilder(seed)
    rng = np.random.default_rng(seed)
    x = g.input(1, int(rng.integers(3, 14)), int(rng.integers(1, 8)), int(rng.integers(1, 6)))
    for _ in range(int(rng.integers(1, 9))):
        _, h, w, c = g.shape(x)
        choice = rng.integers(0, 9)
        if choice == 0:
            x = g.conv(
                x, int(rng.integers(1, 8)), (int(rng.integers(1, 4)), int(rng.integers(1, 4))), int(rng.integers(1, 3))
            )
        elif choice == 1:
            x = g.depthwise(x, (3, min(3, w)), int(rng.integers(1, 3)))
        elif choice == 2:
            x = g.add(g.conv(x, c, (3, 1)), x)
        elif choice == 3 and min(h, w) >= 2:
            x = g.maxpool(x)
        elif choice == 4 and min(h, w) >= 2:
            x = g.avgpool(x)
        elif choice == 5:
            x = g.concat(g.conv(x, 2, (3, 3)), g.table(x), x)
        elif choice == 6 and h * w < 60:
            x = g.upsample(x)
        elif choice == 7:
            x = g.add(g.depthwise(g.conv(x, c)), g.conv(x, c, (1, 3)))
        else:
            x = g.table(x)
    if rng.random() < 0.5:
        x = g.dense(g.mean(x) if rng.random() < 0.5 else x, 3)
    return g.build(x)
