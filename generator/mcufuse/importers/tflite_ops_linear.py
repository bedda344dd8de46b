# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED.

Multipliers as TFLite Micro computes them: in_scale * weight_scale / out_scale in double precision for each channel
(PopulateConvolutionQuantizationParams); a per-tensor FULLY_CONNECTED takes the product of the first two in float32
(GetQuantizedConvolutionMultipler).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir import Conv2D, DepthwiseConv2D, DType, FullyConnected, Quant, Requant
from .tflite_ops_base import QUANTIZE_HINT, Node, Row, Value, window

__all__ = ["ROWS"]

I64 = npt.NDArray[np.int64]

_MAX_CHANNELS = 1 << 16
_BIAS_TOLERANCE = 0.02  # TFLite's: |bias scale - in_scale * weight_scale| / out_scale


@dataclass(frozen=True, slots=True)
class _Weights:
    """Constant int8 weights of a linear operator, their scales (one, or one a channel) and the int32 bias."""

    data: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]
    bias: npt.NDArray[np.int32]
    weights_name: str
    bias_name: str


def _weights(node: Node, axis: int, rank: int) -> _Weights:
    """Operands 1 and 2, checked; `axis` of the weights is the output channel."""
    info = node.info(1, "weights")
    data = node.const(1, "weights", "INT8", "INT4")
    if data.ndim != rank:
        node.refuse(f"weights of {data.ndim} dimensions, not {rank}", "the file is damaged; convert the model again")
    quant, channels = info.quant, data.shape[axis]
    if channels > _MAX_CHANNELS:
        node.refuse(f"{channels:,} output channels, more than {_MAX_CHANNELS:,}", "is the file damaged?")
    if quant is None or not len(quant.zeros):
        node.refuse(f'weights "{info.name}" have no quantization', QUANTIZE_HINT)
    if len(quant.scales) not in (1, channels):
        node.refuse(f"{len(quant.scales)} weight scales for {channels} channels", QUANTIZE_HINT)
    if len(quant.scales) > 1 and quant.axis != axis:
        node.refuse(f"weights quantized along axis {quant.axis}, not {axis}", QUANTIZE_HINT)
    if len(quant.zeros) not in (1, len(quant.scales)) or quant.zeros.any():
        node.refuse("weights with zero points that are not 0", "quantize the weights symmetrically (TFLite's default)")
    if not (np.isfinite(quant.scales).all() and (quant.scales > 0).all()):
        node.refuse("weights with scales that are not finite and above zero", "calibrate and convert again")
    bias, bias_name = _bias(node, channels)
    return _Weights(data.astype(np.int8, copy=False), quant.scales, bias, info.name, bias_name)


def _bias(node: Node, channels: int) -> tuple[npt.NDArray[np.int32], str]:
    """The bias, zeros if left out, and its name."""
    if not node.has(2):
        node.builder.spend(4 * channels)
        return np.zeros(channels, np.int32), f"{node.info(1).name}.bias"
    bias = node.const(2, "bias", "INT32")
    if bias.size != channels:
        node.refuse(f"{bias.size} biases for {channels} channels", "the file is damaged; convert the model again")
    return bias.reshape(-1), node.info(2).name


def _bounds(weights: npt.NDArray[np.int8], bias: npt.NDArray[np.int32], in_zero: int) -> I64:
    """The greatest magnitude that each channel's accumulator can take, for weights of shape [channel, ...]."""
    flat = weights.reshape(len(bias), -1)
    total = flat.sum(axis=1, dtype=np.int64)
    magnitude = np.abs(flat.astype(np.int16)).sum(axis=1, dtype=np.int64)
    positive, negative = (magnitude + total) // 2, (magnitude - total) // 2
    low, high = -128 - in_zero, 127 - in_zero  # the range of q - zero, around 0
    top = bias + positive * high - negative * low
    bottom = bias + positive * low - negative * high
    return np.asarray(np.maximum(np.abs(top), np.abs(bottom)), np.int64)


def _requant(node: Node, reals: npt.NDArray[np.float64], bounds: I64) -> Requant:
    """The multipliers; one if there is one scale for all channels."""
    peaks = bounds.tolist() if len(reals) == len(bounds) else [max(bounds.tolist())]
    pairs = [node.requant(real, peak) for real, peak in zip(reals.tolist(), peaks, strict=True)]
    return Requant(tuple(m for m, _ in pairs), tuple(s for _, s in pairs), node.rounding)


def _factors(x: Value, weights: _Weights, y: Value) -> npt.NDArray[np.float64]:
    """in_scale * weight_scale / out_scale in double precision."""
    with np.errstate(all="ignore"):
        return np.asarray(x.scale * weights.scales.astype(np.float64) / y.scale, np.float64)


def _place(node: Node, weights: _Weights, data: npt.NDArray[np.int8], axis: int) -> tuple[str, str]:
    """Adds weights (in the graph's layout) and bias to the graph; their names."""
    scales = tuple(float(s) for s in weights.scales)
    quant = Quant(scales, (0,) * len(scales), axis if len(scales) > 1 else None)
    return (
        node.constant(weights.weights_name, data, DType.S8, quant),
        node.constant(weights.bias_name, weights.bias, DType.S32),
    )


def conv_2d(node: Node) -> None:
    """Weights [OC, KH, KW, IC / groups], quantized along axis 0."""
    x = node.value(0)
    height, width, channels = node.map_shape(x)
    weights = _weights(node, axis=0, rank=4)
    out_channels, kernel_h, kernel_w, in_group = weights.data.shape
    if channels % in_group or out_channels % (channels // in_group):
        node.refuse(f"{channels} input channels do not split into groups of {in_group}", "check the weights' shape")
    stride, dilation = (node.option(2), node.option(1)), (node.option(5, default=1), node.option(4, default=1))
    (out_h, out_w), padding = window((height, width), (kernel_h, kernel_w), stride, dilation, node.option(0, "i8") == 0)
    y = node.output((1, out_h, out_w, out_channels))
    requant = _requant(node, _factors(x, weights, y), _bounds(weights.data, weights.bias, x.zero))
    w, b = _place(node, weights, weights.data, 0)
    node.emit(
        Conv2D, (x.name, w, b), y.name, stride=stride, dilation=dilation, padding=padding,
        groups=channels // in_group, in_zero=x.zero, out_zero=y.zero, requant=requant, clamp=node.clamp(3, y),
    )  # fmt: skip


def depthwise_conv_2d(node: Node) -> None:
    """Weights [1, KH, KW, C * multiplier], quantized along axis 3."""
    x = node.value(0)
    height, width, channels = node.map_shape(x)
    weights = _weights(node, axis=3, rank=4)
    one, kernel_h, kernel_w, out_channels = weights.data.shape
    if one != 1 or out_channels % channels:
        node.refuse(f"weights {list(weights.data.shape)} for {channels} channels", "check the weights' shape")
    if node.option(3) not in (0, out_channels // channels):
        node.refuse(
            f"multiplier {node.option(3)}, but {out_channels} of {channels} channels", "check the weights' shape"
        )
    stride, dilation = (node.option(2), node.option(1)), (node.option(6, default=1), node.option(5, default=1))
    (out_h, out_w), padding = window((height, width), (kernel_h, kernel_w), stride, dilation, node.option(0, "i8") == 0)
    y = node.output((1, out_h, out_w, out_channels))
    by_channel = weights.data.reshape(-1, out_channels).T
    requant = _requant(node, _factors(x, weights, y), _bounds(by_channel, weights.bias, x.zero))
    w, b = _place(node, weights, weights.data[0], 2)
    node.emit(
        DepthwiseConv2D, (x.name, w, b), y.name, multiplier=out_channels // channels, stride=stride,
        dilation=dilation, padding=padding, in_zero=x.zero, out_zero=y.zero, requant=requant, clamp=node.clamp(4, y),
    )  # fmt: skip


def fully_connected(node: Node) -> None:
    """Weights [OC, K]; several rows of K elements become a 1x1 convolution."""
    x = node.value(0)
    if node.option(1, "i8"):
        node.refuse("shuffled weights", "convert with the default weights format")
    weights = _weights(node, axis=0, rank=2)
    out_channels, depth = weights.data.shape
    rows, rest = divmod(x.elements, depth)
    if rest:
        node.refuse(f"{x.elements} input elements are not rows of {depth}", "check the weights' shape")
    y = node.output(_row_shape(node, rows, out_channels))
    bounds = _bounds(weights.data, weights.bias, x.zero)
    requant = _requant(node, _row_factors(node, x, weights, y), bounds)
    clamp = node.clamp(0, y)
    common: dict[str, Any] = {"in_zero": x.zero, "out_zero": y.zero, "requant": requant, "clamp": clamp}
    if rows == 1:
        w, b = _place(node, weights, weights.data, 0)
        node.emit(FullyConnected, (x.name, w, b), y.name, **common)
        return
    shape = node.builder.tensors[x.name].shape
    if len(shape) != 4 or shape[3] != depth:
        shape = (1, rows, 1, depth)
    w, b = _place(node, weights, weights.data.reshape(out_channels, 1, 1, depth), 0)
    node.emit_viewed(Conv2D, (node.viewed(x, shape), w, b), y, (*shape[:3], out_channels), **common)


def _row_shape(node: Node, rows: int, out_channels: int) -> tuple[int, ...]:
    """The output's shape: the file's, where it is `rows` rows of `out_channels` in any arrangement."""
    claimed = node.info_out().shape
    return claimed if claimed and claimed[-1] == out_channels and math.prod(claimed) == rows * out_channels else (
        rows, out_channels
    )  # fmt: skip


def _row_factors(node: Node, x: Value, weights: _Weights, y: Value) -> npt.NDArray[np.float64]:
    """FULLY_CONNECTED's factors: per tensor with the float32 product, after TFLite's check of the bias' scale."""
    if len(weights.scales) > 1:
        return _factors(x, weights, y)
    with np.errstate(all="ignore"):
        product = np.float32(x.scale) * np.float32(weights.scales[0])
    bias = node.info(2).quant if node.has(2) else None
    if bias is not None and len(bias.scales) == 1:
        difference = abs(x.scale * float(weights.scales[0]) - float(bias.scales[0]))
        if not difference / y.scale <= _BIAS_TOLERANCE:
            node.refuse("the bias' scale is not input scale times weight scale", "convert the model again")
    return np.asarray([float(product) / y.scale], np.float64)


ROWS: tuple[Row, ...] = (
    Row(
        "CONV_2D", conv_2d, "Conv2D",
        "weights int8 (or int4), per tensor or per channel; stride, dilation, groups; SAME or VALID; fused activation",
    ),
    Row(
        "DEPTHWISE_CONV_2D", depthwise_conv_2d, "DepthwiseConv2D",
        "as CONV_2D, with any depth multiplier",
    ),
    Row(
        "FULLY_CONNECTED", fully_connected, "FullyConnected, or Conv2D 1x1 for several rows",
        "constant weights int8 (or int4), per tensor or per channel; bias optional; fused activation",
    ),
)  # fmt: skip
