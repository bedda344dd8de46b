# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What a kernel module offers: the meaning of an operator, the rows it touches, and its C.

The unit of execution is a *tick*: one call of a C row function. A whole operator is a loop of ticks; a stage
interleaves the ticks of several operators so that they share circular line buffers. All C row functions have
one signature, so that the emitter knows nothing of operators:

    static inline void mf_<noun>_row_<type>(const struct mf_<noun>_cfg *cfg,    // shape: compile-time constants
                                            const struct mf_<noun>_data *data,  // this layer's weights, zero points
                                            const int8_t *const *in,            // row pointers, see `Access`
                                            int8_t *out,                        // the row that this tick writes
                                            int tick,
                                            void *scratch);                     // `Lowered.scratch_bytes`, 8-aligned

`in` holds, for each activation operand in order, the pointers its `Access` names: `Window` gives `count` row
pointers (NULL where the row is padding), `Whole` one pointer to the first row of a contiguous map, `Indexed` one
row pointer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from ..ir import Graph, Op
from ..target import Core

__all__ = [
    "Access", "Array", "CArray", "CStruct", "CValue", "Indexed", "Kernel", "LowerContext", "Lowered", "Refusal",
    "RowPlan", "Whole", "Window", "Writes",
]  # fmt: skip

Array = npt.NDArray[Any]
O = TypeVar("O", bound=Op)


@dataclass(frozen=True, slots=True)
class Window:
    """Tick t reads rows stride*t + offset + step*i, i in range(count); those outside the map are padding."""

    stride: int = 1
    offset: int = 0
    count: int = 1
    step: int = 1

    def rows(self, tick: int, height: int) -> list[int]:
        """The valid rows that a tick reads, ascending."""
        first = self.stride * tick + self.offset
        return [r for r in range(first, first + self.count * self.step, self.step) if 0 <= r < height]

    def upto(self, tick: int, height: int) -> int:
        """How many rows must be complete before a tick."""
        return min(self.stride * tick + self.offset + (self.count - 1) * self.step + 1, height)


@dataclass(frozen=True, slots=True)
class Whole:
    """Each tick reads the whole operand, which therefore must be resident."""

    def rows(self, tick: int, height: int) -> list[int]:
        """All rows."""
        return list(range(height))

    def upto(self, tick: int, height: int) -> int:
        """All rows must be complete before the first tick."""
        return height


@dataclass(frozen=True, slots=True)
class Indexed:
    """Tick t reads row index[t]; -1: none (the pointer is NULL)."""

    index: tuple[int, ...]

    def rows(self, tick: int, height: int) -> list[int]:
        """The row of a tick."""
        return [self.index[tick]] if self.index[tick] >= 0 else []

    def upto(self, tick: int, height: int) -> int:
        """How many rows must be complete before a tick."""
        return self.index[tick] + 1


Access = Window | Whole | Indexed


@dataclass(frozen=True, slots=True)
class Writes:
    """Tick t writes row t, or, if `at_end`, the last tick writes the only row (a reduction over rows)."""

    at_end: bool = False


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What each tick touches: `reads` for each activation operand, and the output.

    `in_place[i]`: the output row of a tick may stand exactly where the row of operand i stands that the same tick
    reads (same bytes or fewer, and no element is read after its place was written).
    """

    ticks: int
    reads: tuple[Access, ...]
    writes: Writes = Writes()
    in_place: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class CArray:
    """A constant array of the generated C; equal arrays are emitted once.

    `values` is flattened; `ctype` is "int8_t", "int16_t", "int32_t", "uint8_t", "float".
    """

    ctype: str
    values: Array = field(compare=False)
    label: str  # "weights", "bias", "table": becomes part of the name
    align: int = 4

    @property
    def bytes(self) -> int:
        """Size in flash."""
        return int(self.values.nbytes)


CValue = int | float | str | CArray | None  # None: NULL; str: a C expression


@dataclass(frozen=True, slots=True)
class CStruct:
    """An initializer `{.field = value, ...}` of `struct <type>`."""

    type: str
    fields: tuple[tuple[str, CValue], ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """An operator made concrete for one core: which C row function, with which constants."""

    function: str  # "mf_conv2d_row_s8"
    header: str  # "mcufuse/conv2d.h"
    cfg: CStruct
    data: CStruct
    rows: RowPlan
    scratch_bytes: int = 0  # alive during a tick only
    state_bytes: int = 0  # alive from the first to the last tick (reductions); passed instead of scratch
    instructions: int = 0  # estimated for the whole operator on the core
    code_bytes: int = 0  # estimated, of one instance, see `emit.instances`
    variable: tuple[str, ...] = ()  # fields of cfg that the function may also take at run time, at a small cost

    @property
    def constant_bytes(self) -> int:
        """Size of its constant arrays."""
        fields = (*self.cfg.fields, *self.data.fields)
        return sum(value.bytes for _, value in fields if isinstance(value, CArray))

    @property
    def family(self) -> tuple[str, tuple[tuple[str, CValue], ...]]:
        """Equal for operators that can share an instance: the function and the fields that must be constants."""
        return self.function, tuple(f for f in self.cfg.fields if f[0] not in self.variable)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a C row function does not fit an operator."""

    function: str
    reason: str


@dataclass(frozen=True, slots=True)
class LowerContext:
    """What lowering may look at."""

    graph: Graph
    core: Core

    def hwc(self, tensor: str) -> tuple[int, int, int]:
        """(height, width, channels) of a tensor."""
        return self.graph.tensors[tensor].hwc


class Kernel(ABC, Generic[O]):
    """One operator: oracle, geometry and C. Instances are listed in `kernels.KERNELS`."""

    op: type[O]

    @abstractmethod
    def evaluate(self, op: O, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle: the output for the operands `args` (constants included, in the order of `op.inputs`).

        Returns an array of the output tensor's shape and dtype.
        """

    @abstractmethod
    def lower(self, op: O, context: LowerContext) -> list[Lowered | Refusal]:
        """All ways to run the operator on the core, with estimated cost; refusals carry their reason."""

    def macs(self, op: O, graph: Graph) -> int:
        """Multiply-accumulates of one inference, padding included as the field counts them; 0 for others."""
        return 0

    def recomputed_macs(self, op: O, graph: Graph) -> int:
        """Those of `macs` that repeat others to save memory."""
        return 0
