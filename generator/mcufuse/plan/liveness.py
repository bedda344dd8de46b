# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How many rows a stage keeps, and how far its output may stand on its dying input.

Both follow from the order of events of a stage (`schedule.pull_order`), in which rows are written and read:

    ring    rows written but still to be read at one time; row r + ring may reuse the place of row r
    slack   the least `offset(input) - offset(output)` at which no output row reaches an input row that is still
            to be read, in bytes; smaller than the output's size where the input is consumed on the way

        output  [row 0][row 1][row 2]...            each write must end before the first unread input row
        input        [.....][row 0][row 1][row 2]   (or start with it, for a row function that works in place)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ..kernels.base import Access
from ..schedule import Event, Step

__all__ = ["StageTrace", "single_rows"]

Ints = npt.NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max


@cache
def _read_table(access: Access, ticks: int, height: int) -> tuple[Ints, Ints]:
    """(tick, row) of every row that an operand reads, by tick."""
    pairs = [(tick, row) for tick in range(ticks) for row in access.rows(tick, height)]
    table = np.asarray(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@cache
def single_rows(access: Access, ticks: int, height: int) -> bool:
    """Whether tick t reads just row t."""
    return all(access.rows(tick, height) == [tick] for tick in range(ticks))


@dataclass(frozen=True, slots=True)
class StageTrace:
    """The events of the stage that ends with step `last`, for any first step >= `first`."""

    steps: Sequence[Step]
    first: int
    last: int
    when: tuple[Ints, ...]  # for step first + k: the time of each of its ticks

    @staticmethod
    def of(steps: Sequence[Step], first: int, last: int, events: Sequence[Event]) -> StageTrace:
        """Sorts the events by step."""
        times: list[list[int]] = [[] for _ in range(first, last + 1)]
        for time, event in enumerate(events):
            times[event.step - first].append(time)
        return StageTrace(steps, first, last, tuple(np.asarray(t, np.int64) for t in times))

    def writes(self, k: int) -> Ints:
        """The time at which step k completes each of its output rows."""
        when = self.when[k - self.first]
        if self.steps[k].lowered.rows.writes.at_end:
            return when[-1:] if len(when) == self.steps[k].ticks else when[:0]
        return when

    def reads(self, k: int, operand: int) -> tuple[Ints, Ints]:
        """(time, row) of each row that step k reads of an operand."""
        step = self.steps[k]
        source = step.operands[operand]
        ticks, rows = _read_table(source.access, step.ticks, source.height)
        when = self.when[k - self.first]
        done = ticks < len(when)
        return when[ticks[done]], rows[done]

    def last_read(self, storage: str, height: int, first: int) -> Ints:
        """For each row of a tensor, the time of its last read by steps >= first; -1: never."""
        last = np.full(height, -1, np.int64)
        for k in range(first, self.last + 1):
            for i, operand in enumerate(self.steps[k].operands):
                if operand.storage == storage:
                    times, rows = self.reads(k, i)
                    np.maximum.at(last, rows, times)
        return last

    def ring(self, producer: int, last_read: Ints) -> int:
        """Rows that the output of `producer` must hold, given each row's last read."""
        written = self.writes(producer)
        rows = np.arange(len(written))
        until = np.maximum(last_read[: len(written)], written)
        return int(np.max(np.searchsorted(written, until, side="right") - rows, initial=1))

    def slack(self, first: int, storage: str, writer: int) -> int:
        """Least offset(storage) - offset(output of `writer`) in bytes for a stage first..last; see above.

        `storage` stands in memory before the stage and is not read after it.
        """
        out_bytes = self.steps[writer].out_row_bytes
        written = self.writes(writer)
        rows = np.arange(len(written))
        least = -_NEVER
        for k in range(first, self.last + 1):
            for i, operand in enumerate(self.steps[k].operands):
                if operand.storage != storage:
                    continue
                times, read_rows = self.reads(k, i)
                starts = read_rows * operand.row_bytes
                in_place = k == writer and self._works_in_place(k, i)
                unread = _first_unread(times, starts, written + 1 if in_place else written)
                alive = unread != _NEVER
                if alive.any():
                    least = max(least, int(np.max(((rows + 1) * out_bytes - unread)[alive])))
                if in_place:
                    least = max(least, int(np.max(rows * out_bytes - rows * operand.row_bytes)))
        return least if least != -_NEVER else -(1 << 40)

    def _works_in_place(self, k: int, i: int) -> bool:
        step = self.steps[k]
        flags = step.lowered.rows.in_place
        operand = step.operands[i]
        twice = sum(o.storage == operand.storage for o in step.operands) > 1
        return (
            i < len(flags)
            and flags[i]
            and not twice
            and not step.lowered.rows.writes.at_end
            and operand.row_bytes >= step.out_row_bytes
            and single_rows(operand.access, step.ticks, operand.height)
        )

    def aliases(self, k: int, i: int) -> bool:
        """Whether step k may write its rows into the very rows of operand i (equal sizes, in place)."""
        operand = self.steps[k].operands[i]
        return self._works_in_place(k, i) and operand.row_bytes == self.steps[k].out_row_bytes


def _first_unread(times: Ints, starts: Ints, at: Ints) -> Ints:
    """For each time in `at`: the lowest start among the reads at that time or later."""
    order = np.argsort(times, kind="stable")
    lowest = np.minimum.accumulate(starts[order][::-1])[::-1]
    padded = np.append(lowest, _NEVER)
    return padded[np.searchsorted(times[order], at, side="left")]
