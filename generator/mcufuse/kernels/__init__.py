# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel table: one line for each operator. Adding an operator: docs/adding-an-operator.md."""

from __future__ import annotations

from typing import Any

from ..ir import Op
from .base import Kernel
from .conv2d import Conv2DKernel
from .depthwise_conv2d import DepthwiseConv2DKernel
from .fully_connected import FullyConnectedKernel

__all__ = ["KERNELS", "kernel_of"]

_TABLE: tuple[Kernel[Any], ...] = (
    Conv2DKernel(),
    DepthwiseConv2DKernel(),
    FullyConnectedKernel(),
)

KERNELS: dict[type[Op], Kernel[Any]] = {kernel.op: kernel for kernel in _TABLE}


def kernel_of(op: Op) -> Kernel[Any]:
    """The kernel of an operator; KeyError for a `Reshape`, which moves no data."""
    return KERNELS[type(op)]
