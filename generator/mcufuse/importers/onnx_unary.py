# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of one value. Between DequantizeLinear and QuantizeLinear any chain of them is one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .onnx_context import Args, Context, Handler, operand, optional_array, scalar_of
from .onnx_node import Gap, Node
from .onnx_qdq import qlinear
from .onnx_values import F64, Codes, Const, FloatInput, Pending, Real, Value, describe

__all__ = ["HANDLERS", "apply"]

_ERF = np.vectorize(math.erf, otypes=[np.float64])
_QUANTIZE_BETWEEN = (
    "put QuantizeLinear and DequantizeLinear between the two operators, as ONNX Runtime's quantizer does"
)


def _sigmoid(v: F64) -> F64:
    return np.asarray(1 / (1 + np.exp(-v)), np.float64)


def _gelu(v: F64, approximate: str) -> F64:
    if approximate == "tanh":
        return np.asarray(0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))))
    return np.asarray(0.5 * v * (1 + _ERF(v / math.sqrt(2))))


def apply(value: Value, name: str, function: Callable[[F64], Any], parameters: tuple[float, ...] = ()) -> Value:
    """A function of a quantized value; raises `Gap` for one that is not quantized."""
    if isinstance(value, Real):
        return value.apply(name, function, parameters)
    if isinstance(value, Const) and value.data.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return Const(np.asarray(function(value.data.astype(np.float64))).astype(value.data.dtype))
    if isinstance(value, FloatInput):
        raise Gap(
            "it computes with the network's float input", "quantize the input first, or move this step to the caller"
        )
    raise Gap(f"its operand is {describe(value)}", _QUANTIZE_BETWEEN)


def _limit(value: Value, lo: float, hi: float) -> Value:
    lo = min(lo, hi)  # ONNX: min above max gives max
    if isinstance(value, Pending):
        return value.limited(lo, hi)
    if isinstance(value, Codes):
        stored = np.clip(value.visible, lo, hi).astype(np.int64) - (128 if value.unsigned else 0)
        return replace(value, stored=stored, label="clip", name="")
    parameters = (-math.inf if lo == -math.inf else lo, math.inf if hi == math.inf else hi)
    return apply(value, "clip", lambda v: np.minimum(np.maximum(v, lo), hi), parameters)


def _relu(ctx: Context, node: Node, args: Args) -> Value:
    return _limit(operand(args, 0), 0.0, math.inf)


def _clip(ctx: Context, node: Node, args: Args) -> Value:
    bounds = []
    for i, (name, default) in enumerate((("min", -math.inf), ("max", math.inf)), start=1):
        array = optional_array(args, i)
        if array is not None and array.size != 1:
            raise Gap(f"its {name} has {array.size} elements")
        bound = float(array.flat[0]) if array is not None else node.number(name, 0.0) if node.has(name) else default
        if math.isnan(bound):
            raise Gap(f"its {name} is not a number")
        bounds.append(bound)
    return _limit(operand(args, 0), *bounds)


def _leaky(ctx: Context, node: Node, args: Args) -> Value:
    alpha = node.number("alpha", 0.01)
    return apply(operand(args, 0), "leaky-relu", lambda v: np.where(v >= 0, v, alpha * v), (alpha,))


def _elu(ctx: Context, node: Node, args: Args) -> Value:
    alpha = node.number("alpha", 1.0)
    return apply(operand(args, 0), "elu", lambda v: np.where(v >= 0, v, alpha * np.expm1(np.minimum(v, 0))), (alpha,))


def _selu(ctx: Context, node: Node, args: Args) -> Value:
    alpha, gamma = node.number("alpha", 1.67326319), node.number("gamma", 1.05070102)
    return apply(operand(args, 0), "selu", lambda v: gamma * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0))))


def _celu(ctx: Context, node: Node, args: Args) -> Value:
    alpha = node.number("alpha", 1.0)
    if alpha == 0:
        raise Gap("alpha is 0")
    return apply(operand(args, 0), "celu", lambda v: np.maximum(v, 0) + np.minimum(0, alpha * np.expm1(v / alpha)))


def _hard_sigmoid(ctx: Context, node: Node, args: Args) -> Value:
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return apply(operand(args, 0), "hard-sigmoid", lambda v: np.clip(alpha * v + beta, 0, 1))


def _thresholded(ctx: Context, node: Node, args: Args) -> Value:
    alpha = node.number("alpha", 1.0)
    return apply(operand(args, 0), "thresholded-relu", lambda v: np.where(v > alpha, v, 0))


def _gelu_node(ctx: Context, node: Node, args: Args) -> Value:
    approximate = node.text("approximate", "none")
    return apply(operand(args, 0), "gelu", lambda v: _gelu(v, approximate))


def _fast_gelu(ctx: Context, node: Node, args: Args) -> Value:
    if len(args) > 1 and args[1] is not None:
        raise Gap("it adds a bias", "export without fusing the bias into FastGelu")
    return apply(operand(args, 0), "gelu", lambda v: _gelu(v, "tanh"))


def _swish(ctx: Context, node: Node, args: Args) -> Value:
    alpha = node.number("alpha", 1.702 if node.op.endswith("QuickGelu") else 1.0)
    return apply(operand(args, 0), "silu", lambda v: v * _sigmoid(alpha * v))


def _prelu(ctx: Context, node: Node, args: Args) -> Value:
    slope = scalar_of(operand(args, 1))
    if slope is None:
        from .onnx_binary import prelu

        return prelu(ctx, operand(args, 0), operand(args, 1))
    alpha = slope
    return apply(operand(args, 0), "leaky-relu", lambda v: np.where(v >= 0, v, alpha * v), (alpha,))


def _same(ctx: Context, node: Node, args: Args) -> Value:
    return operand(args, 0)


def _dropout(ctx: Context, node: Node, args: Args) -> Value:
    training = optional_array(args, 2)
    if training is not None and training.any():
        raise Gap("it is in training mode", "export the model in evaluation mode: model.eval()")
    return operand(args, 0)


def _cast(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    target = node.integer("to", 1)
    if target == 1 and not isinstance(value, Codes):
        return value
    raise Gap(f"it converts {describe(value)} to element type {target}", "only casts that change nothing are supported")


def _plain(name: str, function: Callable[[F64], Any]) -> Handler:
    return lambda _, __, args: apply(operand(args, 0), name, function)


HANDLERS: Mapping[str, Handler] = {
    "Abs": _plain("abs", np.abs),
    "Cast": _cast,
    "Ceil": _plain("ceil", np.ceil),
    "Celu": _celu,
    "Clip": _clip,
    "Dropout": _dropout,
    "Elu": _elu,
    "Erf": _plain("erf", _ERF),
    "Exp": _plain("exp", np.exp),
    "Floor": _plain("floor", np.floor),
    "Gelu": _gelu_node,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain("hard-swish", lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
    "Identity": _same,
    "LeakyRelu": _leaky,
    "Log": _plain("log", np.log),
    "Mish": _plain("mish", lambda v: v * np.tanh(np.logaddexp(v, 0))),
    "Neg": _plain("neg", np.negative),
    "PRelu": _prelu,
    "Reciprocal": _plain("reciprocal", np.reciprocal),
    "Relu": _relu,
    "Round": _plain("round", np.rint),
    "Selu": _selu,
    "Sigmoid": _plain("sigmoid", _sigmoid),
    "Sign": _plain("sign", np.sign),
    "Sin": _plain("sin", np.sin),
    "Cos": _plain("cos", np.cos),
    "Softplus": _plain("softplus", lambda v: np.logaddexp(v, 0)),
    "Softsign": _plain("softsign", lambda v: v / (1 + np.abs(v))),
    "Sqrt": _plain("sqrt", np.sqrt),
    "Swish": _swish,
    "Tanh": _plain("tanh", np.tanh),
    "ThresholdedRelu": _thresholded,
    "com.microsoft.FastGelu": _fast_gelu,
    "com.microsoft.Gelu": _gelu_node,
    "com.microsoft.QuickGelu": _swish,
    "com.microsoft.QLinearLeakyRelu": qlinear(_leaky, (0,), 3),
    "com.microsoft.QLinearSigmoid": qlinear(_plain("sigmoid", _sigmoid), (0,), 3),
}
