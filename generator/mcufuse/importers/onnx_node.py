# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A node of an ONNX model with checked access to its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Attribute", "Gap", "Node"]

Array = npt.NDArray[Any]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array | None


class Gap(Exception):
    """A node that cannot be imported: why, and the way out."""

    def __init__(self, reason: str, hint: str = ""):
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `op` is the operator's name, with its domain in front unless that is ONNX's own."""

    index: int
    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = MappingProxyType({})

    @property
    def label(self) -> str:
        """The node's name, or that of its first output."""
        return self.name or (self.outputs[0] if self.outputs else f"{self.op}_{self.index}")

    @property
    def place(self) -> str:
        """How messages call it."""
        return f'node {self.index} "{self.label}" ({self.op})'

    def input(self, index: int) -> str:
        """The name of an operand, "" if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self.attributes

    def integer(self, name: str, default: int) -> int:
        """An integer attribute; raises `Gap` if it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise Gap(f"attribute {name} is not an integer")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite float attribute; raises `Gap` if it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, float | int) or not np.isfinite(value):
            raise Gap(f"attribute {name} is not a finite number")
        return float(np.float32(value))

    def text(self, name: str, default: str) -> str:
        """A string attribute; raises `Gap` if it is something else."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise Gap(f"attribute {name} is not a string")
        return value

    def ints(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """A list of integers, or the default; raises `Gap` if it is something else."""
        value = self.attributes.get(name, default)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise Gap(f"attribute {name} is not a list of integers")
        return tuple(int(v) for v in value)
