# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Writes random models of each operator with their vectors, and a test case for each operator that runs them.

The models are those of the host's tests (tests/tflite_cases.py), which compare them with other runtimes. Seeds are
fixed: the same files come out every time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests"))

from mcufuse.config import load_config  # noqa: E402
from mcufuse.output import depfile_text, write_files  # noqa: E402
from mcufuse.pipeline import compile_network  # noqa: E402
from mcufuse.target import Core  # noqa: E402
from mcufuse.testcases import make_cases  # noqa: E402
from mcufuse.vectors import emit_vectors_c  # noqa: E402
from mcufuse.zephyr.dotconfig import core_from_dotconfig  # noqa: E402
from tflite_cases import CASES  # noqa: E402

VECTORS = 6
LICENCE = "/*\n * Copyright (c) 2026 The mcufuse authors\n * SPDX-License-Identifier: Apache-2.0\n */\n"


def model_name(operator: str, number: int) -> str:
    """A C identifier: "op_conv2d_groups_0"."""
    return f"op_{operator.replace('-', '_')}_{number}"


def model_files(operator: str, number: int, core: Core, folder: Path) -> dict[str, str]:
    """A random model of `operator` and its vectors: one C file, and the headers.

    Of some operators, a reshape say, nothing but the description of a network is left.
    """
    name = model_name(operator, number)
    path = folder / f"{name}.tflite"
    path.write_bytes(CASES[operator](np.random.default_rng((number, *operator.encode()))).data)
    config = replace(load_config(path), name=name, arena_group="operators")
    compiled = compile_network(config, core=core)
    files = dict(compiled.files)
    source, header = emit_vectors_c(name, make_cases(config, compiled, VECTORS))
    files[f"{name}.c"] += source
    return files | {f"{name}_vectors.h": header}


def tests_file(models: int) -> str:
    """The test cases, one for each operator."""
    names = {operator: [model_name(operator, number) for number in range(models)] for operator in CASES}
    parts = [LICENCE, "#include <zephyr/ztest.h>\n", '#include "operators.h"']
    parts += [f'#include "{name}_vectors.h"' for group in names.values() for name in group]
    for operator, group in names.items():
        parts += [
            f"\nZTEST(kernels, test_{operator.replace('-', '_')})",
            "{\n\tstatic const struct mcufuse_vectors *const models[] = {",
            *(f"\t\t&{name}_vectors," for name in group),
            "\t};\n\n\tcheck_models(models, ARRAY_SIZE(models));\n}",
        ]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names of the C files, without .c")
    parser.add_argument("-o", dest="output", type=Path, help="directory for the files")
    parser.add_argument("--models", type=int, default=1, help="models of each operator")
    parser.add_argument("--dotconfig", type=Path, help="Zephyr's .config")
    args = parser.parse_args()
    models = [(operator, number) for operator in CASES for number in range(args.models)]
    if args.list:
        print("\n".join(["operators", *(model_name(*model) for model in models)]))
        return
    core = core_from_dotconfig(args.dotconfig)
    files = {"operators.c": tests_file(args.models)}
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            files |= model_files(*model, core, Path(folder))
    ours = {"mcufuse", "tflite_cases", "tflite_builder"}
    sources = [Path(m.__file__) for n, m in list(sys.modules.items()) if n.split(".")[0] in ours and m.__file__]
    files["operators.d"] = depfile_text(args.output / "operators.c", sources)
    write_files(args.output, files)


if __name__ == "__main__":
    main()
