# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel table: one line for each operator. Adding an operator: docs/adding-an-operator.md."""

from __future__ import annotations

from typing import Any

from ..ir import Op
from .add import AddKernel
from .base import Kernel
from .bottleneck import BottleneckKernel
from .concat import ConcatKernel
from .conv2d import Conv2DKernel
from .depthwise_conv2d import DepthwiseConv2DKernel
from .dequantize import DequantizeKernel
from .fully_connected import FullyConnectedKernel
from .lut import LutKernel
from .mean import MeanKernel
from .mul import MulKernel
from .pad import PadKernel
from .pool import AvgPool2DKernel, MaxPool2DKernel
from .prelu import PReluKernel
from .quantize import QuantizeKernel
from .resize_nearest import ResizeNearestKernel
from .slice import SliceKernel
from .softmax import SoftmaxKernel
from .transpose import TransposeKernel

__all__ = ["KERNELS", "kernel_of"]

_TABLE: tuple[Kernel[Any], ...] = (
    Conv2DKernel(),
    DepthwiseConv2DKernel(),
    BottleneckKernel(),
    FullyConnectedKernel(),
    AddKernel(),
    ConcatKernel(),
    DequantizeKernel(),
    LutKernel(),
    MeanKernel(),
    MulKernel(),
    PadKernel(),
    AvgPool2DKernel(),
    MaxPool2DKernel(),
    PReluKernel(),
    QuantizeKernel(),
    ResizeNearestKernel(),
    SliceKernel(),
    SoftmaxKernel(),
    TransposeKernel(),
)

KERNELS: dict[type[Op], Kernel[Any]] = {kernel.op: kernel for kernel in _TABLE}


def kernel_of(op: Op) -> Kernel[Any]:
    """The kernel of an operator; KeyError for a `Reshape`, which moves no data."""
    return KERNELS[type(op)]
