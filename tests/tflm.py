# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs models in TFLite Micro's reference interpreter, in a process of its own because bad models may crash it.

Run as a script this is the worker: pickled (model, list of inputs for each run) in, pickled outputs or an error out.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Tflm", "TflmError"]

Array = npt.NDArray[Any]

_ARENA = 8 << 20


class TflmError(Exception):
    """The interpreter refused the model or died of it."""


class Tflm:
    """An interpreter process; a context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Tflm:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def run(
        self, model: bytes, runs: list[list[Array]], outputs: int, tensors: Sequence[int] = ()
    ) -> list[list[Array]]:
        """The outputs for each run's inputs, then the file's `tensors` by number; raises `TflmError`."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((model, runs, outputs, list(tensors)), self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            self._stop()
            raise TflmError("the interpreter died") from error
        if isinstance(answer, str):
            raise TflmError(answer)
        return list(answer)


def _serve() -> None:
    """Answers requests until the input ends."""
    from tflite_micro.python.tflite_micro import runtime

    while True:
        try:
            model, runs, outputs, tensors = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: list[list[Array]] | str
        try:
            keep = "kPreserveAllTensors" if tensors else "kAllocationRecording"
            config = runtime.InterpreterConfig[keep]
            interpreter = runtime.Interpreter.from_bytes(model, arena_size=_ARENA, intrepreter_config=config)
            answer = []
            for inputs in runs:
                for index, array in enumerate(inputs):
                    interpreter.set_input(np.ascontiguousarray(array), index)
                interpreter.invoke()
                found = [interpreter.get_output(i) for i in range(outputs)]
                found += [interpreter.GetTensor(number, 0)["tensor_data"] for number in tensors]
                answer.append([np.array(array) for array in found])
        except (RuntimeError, ValueError) as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
