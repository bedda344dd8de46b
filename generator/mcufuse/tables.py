# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Builders of the tables that stand for functions of one quantized value.

Each builder takes the quantization of the input and of the output and returns the 256 entries of an
`ir.Lut`: entry i is the output for the i-th input value in ascending order (-128 first for s8, 0 for u8).

TFLITE roundings give the bits of TFLite Micro's reference kernels; where such a kernel does not exist (SiLU, GELU,
hard-sigmoid), TFLite's general rule for tables: the float32 function, halves away from zero. ONNX: the float32
function, halves to even. `softmax_exponents` gives `ir.Softmax.exponents`.

Kernels followed (github.com/tensorflow/tflite-micro, tensorflow/lite): kernels/internal/reference/integer_ops/
{logistic,tanh}.h, reference/{hard_swish,leaky_relu,requantize,softmax}.h, micro/kernels/{elu,activations}.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import fixedpoint
from .arith import quantize_multiplier, requantize, rounding_shift
from .ir import DType, Requant, Rounding

__all__ = [
    "Affine", "Table", "add_parameters", "clip", "compose", "elu", "float_function", "gelu", "hard_sigmoid",
    "hard_swish", "leaky_relu", "mean_requant", "recode", "requant", "sigmoid", "silu", "softmax_exponents",
    "softmax_inverse", "tanh",
]  # fmt: skip

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Table = tuple[int, ...]

_SOFTMAX_INTEGER_BITS = 5


@dataclass(frozen=True, slots=True)
class Affine:
    """A per-tensor quantization of 8-bit values: real = scale * (q - zero)."""

    scale: float
    zero: int
    dtype: DType = DType.S8

    @property
    def values(self) -> I64:
        """All 256 values, ascending."""
        low, high = self.bounds
        return np.arange(low, high + 1, dtype=np.int64)

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the greatest value."""
        return (0, 255) if self.dtype is DType.U8 else (-128, 127)


def _clamped(q: npt.ArrayLike, y: Affine) -> Table:
    return tuple(int(v) for v in np.clip(np.asarray(q, np.int64), *y.bounds))


def _scaled(values: npt.ArrayLike, real: float, rounding: Rounding) -> I64:
    """values * real by the rounding's fixed-point multiplication; `real` >= 0."""
    multiplier, shift = quantize_multiplier(real)
    return requantize(values, Requant((multiplier,), (shift,), rounding))


def _ratio32(numerator: float, denominator: float) -> float:
    """The quotient of two scales in float32, as kernels that divide floats see it."""
    return float(np.float32(numerator) / np.float32(denominator))


def _away(x: npt.ArrayLike) -> F64:
    """Nearest integer, halves away from zero: C's round()."""
    x = np.asarray(x, np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x), np.float64)


def float_function(function: Callable[[F64], F64], x: Affine, y: Affine, rounding: Rounding) -> Table:
    """A table of any real function, computed to float32 precision.

    ONNX: rint(f / scale); otherwise round(f * (1 / scale)) as TFLite fills its tables, in float32.
    """
    real = np.float32(x.scale) * (x.values - x.zero).astype(np.float32)
    with np.errstate(all="ignore"):
        result = function(real.astype(np.float64)).astype(np.float32)
    if rounding is Rounding.ONNX:
        steps = np.rint(result / np.float32(y.scale)).astype(np.float64)
    else:
        steps = _away(result * (np.float32(1) / np.float32(y.scale)))
    steps = np.nan_to_num(steps, nan=0.0, posinf=1e6, neginf=-1e6)
    return _clamped(np.clip(steps, -1e6, 1e6) + y.zero, y)


def requant(x: Affine, y: Affine, rounding: Rounding) -> Table:
    """The same real value under another quantization (and perhaps another signedness)."""
    if rounding is Rounding.ONNX:
        return float_function(lambda v: v, x, y, rounding)
    return _clamped(_scaled(x.values - x.zero, x.scale / y.scale, rounding) + y.zero, y)


def recode(source: DType, target: DType) -> Table:
    """u8 to s8 or back with the zero point moved by 128: the sign bit flips."""
    offset = {DType.S8: 0, DType.U8: 128}
    low = -128 if source is DType.S8 else 0
    return tuple(q - offset[source] + offset[target] for q in range(low, low + 256))


def compose(first: Table, second: Table, middle: DType = DType.S8) -> Table:
    """The table of second(first(x)); `middle` is the type of first's results."""
    offset = 128 if middle is DType.S8 else 0
    return tuple(second[q + offset] for q in first)


def sigmoid(x: Affine, y: Affine, rounding: Rounding) -> Table:
    """1 / (1 + exp(-x)). TFLite: Q4.27 in, Q0.31 arithmetic; the output is 1/256, zero -128 (ValueError otherwise)."""
    if rounding is Rounding.ONNX:
        return float_function(_sigmoid, x, y, rounding)
    _require(y, 1 / 256, -128, "LOGISTIC")
    q0 = _saturating_function(fixedpoint.logistic, x, rounding)
    raw = rounding_shift(q0, 23) - 128
    return _clamped(_outside_radius(raw, x), y)


def tanh(x: Affine, y: Affine, rounding: Rounding) -> Table:
    """The hyperbolic tangent. TFLite: as `sigmoid`, the output is 1/128, zero 0 (ValueError otherwise)."""
    if rounding is Rounding.ONNX:
        return float_function(np.tanh, x, y, rounding)
    _require(y, 1 / 128, 0, "TANH")
    raw = rounding_shift(_saturating_function(fixedpoint.tanh, x, rounding), 24)
    return _clamped(_outside_radius(raw, x), y)


def _require(y: Affine, scale: float, zero: int, kernel: str) -> None:
    if y.zero != zero or not math.isclose(y.scale, scale, rel_tol=1e-3):
        raise ValueError(f"{kernel}: output scale {y.scale:g}, zero {y.zero}; TFLite needs {scale:g}, zero {zero}")


def _q4_multiplier(x: Affine) -> tuple[int, int]:
    fraction, shift = math.frexp(x.scale * (1 << 27))
    return math.floor(fraction * (1 << 31) + 0.5), shift


def _outside_radius(raw: I64, x: Affine) -> I64:
    """Values whose magnitude leaves Q4.27 become the extremes, as TFLite's `input_range_radius` does."""
    _, shift = _q4_multiplier(x)
    radius = math.floor(math.ldexp(15 * (1 << 27), -shift))
    centred = x.values - x.zero
    return np.where(centred <= -radius, -128, np.where(centred >= radius, 127, raw))


def _saturating_function(function: Callable[[I64, int], I64], x: Affine, rounding: Rounding) -> I64:
    multiplier, shift = _q4_multiplier(x)
    q4 = requantize(x.values - x.zero, Requant((multiplier,), (shift,), rounding))
    return function(np.clip(q4, -(1 << 31) + 1, (1 << 31) - 1), 4)  # clipped values lie outside the radius


def hard_swish(x: Affine, y: Affine, rounding: Rounding) -> Table:
    """x * clip(x + 3, 0, 6) / 6. TFLite: int16 arithmetic at 128 times the input's resolution.

    Raises ValueError where TFLite has no kernel: an output more than 128 times finer than the input.
    """
    if rounding is Rounding.ONNX:
        return float_function(lambda v: v * np.clip(v / 6 + 0.5, 0, 1), x, y, rounding)
    hires_scale = np.float32(1 / 128) * np.float32(x.scale)
    out_multiplier, out_exponent = quantize_multiplier(_ratio32(float(hires_scale), y.scale))
    relu_multiplier, relu_exponent = quantize_multiplier(_ratio32(float(hires_scale), float(np.float32(3 / 32768))))
    if out_exponent > 0:
        raise ValueError(f"HARD_SWISH: output scale {y.scale:g} is too fine for input scale {x.scale:g}")
    hires = (x.values - x.zero) << 7
    on_output_scale = _high16(hires, _to_int16(out_multiplier))
    gate = hires
    if relu_exponent > 0:
        gate = _saturate16(gate << (relu_exponent - 1))
    gate = _high16(gate, _to_int16(relu_multiplier))
    if relu_exponent > 0:
        gate = _saturate16(gate << 1)
    elif relu_exponent < 0:
        gate = rounding_shift(gate, -relu_exponent)
    gate = (gate + (1 << 15)) >> 1
    product = gate * on_output_scale
    product = np.sign(product) * (np.abs(product) >> 15)  # a division that rounds to zero
    return _clamped(_wrap16(rounding_shift(product, -out_exponent) + y.zero), y)


def _to_int16(multiplier: int) -> int:
    return 0x7FFF if multiplier >= 0x7FFF8000 - 1 else (multiplier + (1 << 15)) >> 16


def _high16(a: I64, b: int) -> I64:
    return (a * b + (1 << 14)) >> 15


def _saturate16(x: I64) -> I64:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _wrap16(x: I64) -> I64:
    return ((x + (1 << 15)) & 0xFFFF) - (1 << 15)


def leaky_relu(x: Affine, y: Affine, rounding: Rounding, alpha: float) -> Table:
    """x for x >= 0, else alpha * x. TFLite: one fixed-point multiplier for each half."""
    if rounding is Rounding.ONNX:
        slope = float(np.float32(alpha))
        return float_function(lambda v: np.where(v >= 0, v, slope * v), x, y, rounding)
    centred = x.values - x.zero
    slope32 = float(np.float32(x.scale) * np.float32(alpha) / np.float32(y.scale))
    negative = _scaled(centred, abs(slope32), rounding) * (-1 if slope32 < 0 else 1)
    positive = _scaled(centred, _ratio32(x.scale, y.scale), rounding)
    return _clamped(np.where(centred >= 0, positive, negative) + y.zero, y)


def clip(x: Affine, y: Affine, rounding: Rounding, low: float | None, high: float | None) -> Table:
    """x limited to [low, high]; None: no limit. ReLU is (0, None), ReLU6 (0, 6).

    TFLite: requantized, then limited at the quantized bounds. (TFLite Micro's RELU6 does not requantize: it is only
    right, and equal to this, when input and output have one quantization.)
    """
    if rounding is Rounding.ONNX:
        floor, ceiling = -math.inf if low is None else low, math.inf if high is None else high
        return float_function(lambda v: np.minimum(np.maximum(v, floor), ceiling), x, y, rounding)
    quantized = _scaled(x.values - x.zero, _ratio32(x.scale, y.scale), rounding) + y.zero
    if low is not None:
        quantized = np.maximum(quantized, y.zero + int(_away(_ratio32(low, y.scale))))
    if high is not None:
        quantized = np.minimum(quantized, y.zero + int(_away(_ratio32(high, y.scale))))
    return _clamped(quantized, y)


def elu(x: Affine, y: Affine, rounding: Rounding, alpha: float = 1.0) -> Table:
    """x for x >= 0, else alpha * (exp(x) - 1)."""
    slope = float(np.float32(alpha))
    if rounding is Rounding.ONNX:
        return float_function(lambda v: np.where(v >= 0, v, slope * np.expm1(np.minimum(v, 0))), x, y, rounding)

    def tflite(v: F64) -> F64:  # exp is rounded to float32 before 1 is taken off
        exp32 = np.exp(np.minimum(v, 0)).astype(np.float32)
        return np.where(v < 0, slope * (exp32 - np.float32(1)).astype(np.float64), v)

    return float_function(tflite, x, y, rounding)


def silu(x: Affine, y: Affine, rounding: Rounding) -> Table:
    """x / (1 + exp(-x))."""
    return float_function(lambda v: v * _sigmoid(v), x, y, rounding)


def gelu(x: Affine, y: Affine, rounding: Rounding, approximate: bool = False) -> Table:
    """x * Phi(x), or its approximation by tanh."""
    if approximate:
        inner = math.sqrt(2 / math.pi)
        return float_function(lambda v: 0.5 * v * (1 + np.tanh(inner * (v + 0.044715 * v**3))), x, y, rounding)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return float_function(lambda v: 0.5 * v * (1 + erf(v / math.sqrt(2))), x, y, rounding)


def hard_sigmoid(x: Affine, y: Affine, rounding: Rounding, alpha: float = 0.2, beta: float = 0.5) -> Table:
    """clip(alpha * x + beta, 0, 1)."""
    slope, offset = float(np.float32(alpha)), float(np.float32(beta))
    return float_function(lambda v: np.clip(slope * v + offset, 0, 1), x, y, rounding)


def _sigmoid(v: F64) -> F64:
    return np.asarray(1 / (1 + np.exp(-v)), np.float64)


def softmax_exponents(scale: float, beta: float, rounding: Rounding) -> Table:
    """exp(-beta * scale * d) for d = 0 .. 255: `ir.Softmax.exponents`.

    TFLite: Q0.31 by gemmlowp's arithmetic, 0 below the kernel's cut-off. ONNX: Q.20, rounded to nearest.
    Raises ValueError where TFLite refuses the scale (beta * scale <= 2^-26).
    """
    distance = np.arange(256, dtype=np.int64)
    if rounding is Rounding.ONNX:
        return tuple(int(v) for v in np.rint(np.exp(-beta * scale * distance) * (1 << 20)))
    limit = (1 << 30) - 1 if rounding is Rounding.TFLITE_SINGLE else (1 << 31) - 1
    real = min(beta * scale * (1 << (31 - _SOFTMAX_INTEGER_BITS)), float(limit))
    if real <= 1.0:
        raise ValueError(f"SOFTMAX: input scale {scale:g} is too small")
    multiplier, shift = quantize_multiplier(real)
    radius = math.floor(math.ldexp(31 * (1 << 26), -shift))
    inside = distance <= radius
    rescaled = requantize(-np.where(inside, distance, 0), Requant((multiplier,), (shift,), rounding))
    values = np.where(inside, fixedpoint.exp_on_negative(rescaled, _SOFTMAX_INTEGER_BITS), 0)
    return tuple(int(v) for v in values)


def softmax_inverse(out_scale: float) -> int:
    """`ir.Softmax.out_inverse`: 1 / out_scale in Q.8; raises ValueError for a scale below 2^-16 or above 1."""
    if not 2.0**-16 <= out_scale <= 1.0:
        raise ValueError(f"softmax: output scale {out_scale:g} is outside [2^-16, 1]")
    return math.floor(256 / out_scale + 0.5)


def mean_requant(in_scale: float, out_scale: float, count: int, rounding: Rounding = Rounding.TFLITE) -> Requant:
    """The requantization of `ir.Mean` over `count` elements.

    TFLITE: TFLite Micro's MEAN: the ratio's multiplier, shifted as far as it fits, divided by `count` and truncated, so
    that the multiplier may be as small as 2^29. Others: the nearest multiplier of ratio / count.
    """
    ratio = in_scale / out_scale
    if rounding is not Rounding.TFLITE:
        multiplier, shift = quantize_multiplier(ratio / count)
        return Requant((multiplier,), (shift,), rounding)
    multiplier, shift = quantize_multiplier(ratio)
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return Requant(((multiplier << extra) // count,), (shift - extra,), rounding)


def add_parameters(
    lhs_scale: float, rhs_scale: float, out_scale: float, rounding: Rounding
) -> tuple[Requant, Requant, Requant | None]:
    """(lhs, rhs, out) of `ir.Add`.

    TFLite: both operands onto twice the greater scale, 20 bits finer (`left_shift` 20). ONNX: both ratios to out_scale
    in one fixed point with multipliers below 2^22, as precise as they and the sum's 31 bits allow.
    """
    if rounding is Rounding.ONNX:
        ratios = (lhs_scale / out_scale, rhs_scale / out_scale)
        bits = min(22 - math.frexp(max(ratios))[1], 31)
        multipliers = [math.floor(math.ldexp(ratio, bits) + 0.5) for ratio in ratios]
        if max(multipliers) >= 1 << 22:
            bits -= 1
            multipliers = [math.floor(math.ldexp(ratio, bits) + 0.5) for ratio in ratios]
        return Requant((multipliers[0],), (-bits,), rounding), Requant((multipliers[1],), (-bits,), rounding), None
    twice = 2 * max(lhs_scale, rhs_scale)
    pairs = [quantize_multiplier(r) for r in (lhs_scale / twice, rhs_scale / twice, twice / ((1 << 20) * out_scale))]
    lhs, rhs, out = (Requant((multiplier,), (shift,), rounding) for multiplier, shift in pairs)
    return lhs, rhs, out
