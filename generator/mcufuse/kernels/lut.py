# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Any function of one 8-bit value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import DType, Graph, Lut
from ..target import Isa
from .base import Array, CArray, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window

__all__ = ["LutKernel"]


class LutKernel(Kernel[Lut]):
    """A table in flash."""

    op = Lut

    def evaluate(self, op: Lut, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        offset = 128 if args[0].dtype == np.int8 else 0
        table = np.asarray(op.table, np.int64)
        return table[args[0].astype(np.int64) + offset].astype(graph.tensors[op.output].dtype.value)

    def lower(self, op: Lut, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_lut_row_8`. In flash the table is indexed by the input's bits as an unsigned number."""
        height, width, channels = context.hwc(op.output)
        table = np.asarray(op.table, np.int64) & 0xFF
        if context.graph.tensors[op.inputs[0]].dtype is DType.S8:
            table = np.roll(table, 128)
        elements = width * channels
        return [
            Lowered(
                function="mf_lut_row_8",
                header="mcufuse/lut.h",
                cfg=CStruct("mf_lut_cfg", (("elements", elements),)),
                data=CStruct("mf_lut_data", (("table", CArray("uint8_t", table.astype(np.uint8), "table")),)),
                rows=RowPlan(height, (Window(),), in_place=(True,)),
                instructions=height * int(10 + elements * (0.5 if context.core.isa is Isa.MVE else 4)),
            )
        ]
