# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Writes one C file for each operator: random models of it, their vectors, and the test case that runs them.

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


def identifier(operator: str) -> str:
    """ "conv2d-groups" as a C identifier."""
    return "op_" + operator.replace("-", "_")


def model_files(operator: str, number: int, core: Core, folder: Path) -> dict[str, str]:
    """The C files of one random model of `operator`; of a reshape, say, nothing but a name is left."""
    name = f"{identifier(operator)}_{number}"
    path = folder / f"{name}.tflite"
    path.write_bytes(CASES[operator](np.random.default_rng((number, *operator.encode()))).data)
    config = replace(load_config(path), name=name, arena_group="operators")
    compiled = compile_network(config, core=core)
    source, header = emit_vectors_c(name, make_cases(config, compiled, VECTORS))
    return dict(compiled.files) | {f"{name}_vectors.c": source, f"{name}_vectors.h": header}


def operator_files(operator: str, models: int, core: Core) -> dict[str, str]:
    """The headers of all models of `operator`, and the one C file with everything else."""
    label = identifier(operator)
    names = [f"{label}_{number}" for number in range(models)]
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(models):
            files |= model_files(operator, number, core, Path(folder))
    parts = [LICENCE, "#include <zephyr/ztest.h>\n", '#include "operators.h"\n']
    for name in names:
        parts += [files.pop(f"{name}.c"), files.pop(f"{name}_vectors.c")]
    parts += [
        f"ZTEST(kernels, test_{label.removeprefix('op_')})",
        "{\n\tstatic const struct mcufuse_vectors *const models[] = {",
        "".join(f"\t\t&{name}_vectors,\n" for name in names) + "\t};\n",
        "\tcheck_models(models, ARRAY_SIZE(models));\n}\n",
    ]
    files[f"{label}.c"] = "\n".join(parts)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names of the C files, without .c")
    parser.add_argument("-o", dest="output", type=Path, help="directory for the files")
    parser.add_argument("--models", type=int, default=1, help="models of each operator")
    parser.add_argument("--dotconfig", type=Path, help="Zephyr's .config")
    args = parser.parse_args()
    if args.list:
        print("\n".join(identifier(operator) for operator in CASES))
        return
    core = core_from_dotconfig(args.dotconfig)
    for operator in CASES:
        write_files(args.output, operator_files(operator, args.models, core))
    ours = {"mcufuse", "tflite_cases", "tflite_builder"}
    sources = [Path(m.__file__) for n, m in list(sys.modules.items()) if n.split(".")[0] in ours and m.__file__]
    target = args.output / f"{identifier(next(iter(CASES)))}.c"
    write_files(args.output, {"operators.d": depfile_text(target, sources)})


if __name__ == "__main__":
    main()
