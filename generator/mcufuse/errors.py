# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What went wrong, said so that a person can act on it.

Every message names the place, the value and the reason, and a `hint` says what to do next. Problems of
one kind are collected and raised together, so that the user mends a model once and not nine times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["EXIT_BUG", "EXIT_OK", "EXIT_USAGE", "EXIT_USER", "Problem", "Problems", "UserError"]

EXIT_OK = 0
EXIT_USER = 1  # the user's input or budget
EXIT_USAGE = 2  # the command line (argparse)
EXIT_BUG = 70  # ours


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `place: message`, and what to do about it."""

    message: str
    place: str = ""  # "kws.yaml:12: budget.ram" or "kws.tflite: node 8 \"pw3\" (CONV_2D)"
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class UserError(Exception):
    """The user's input, budget or machine is at fault; the command ends with exit code 1."""

    def __init__(self, message: str = "", *, place: str = "", hint: str = "", problems: Iterable[Problem] = ()):
        self.problems: tuple[Problem, ...] = tuple(problems) or (Problem(message, place, hint),)
        super().__init__("\n".join(str(p) for p in self.problems))


class Problems:
    """Collects problems of one kind and raises them in one go.

    >>> found = Problems()
    >>> found.add("zero scale", place="a.onnx: node 3")
    >>> found.raise_if_any()
    Traceback (most recent call last):
    mcufuse.errors.UserError: a.onnx: node 3: zero scale
    """

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, message: str, *, place: str = "", hint: str = "") -> None:
        """Notes one problem and goes on."""
        self._found.append(Problem(message, place, hint))

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raises `UserError` with everything that was found."""
        if self._found:
            raise UserError(problems=self._found)
