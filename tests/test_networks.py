# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The reference networks as C: the oracle's bits on the host and on every core, at every optimisation level.

That the oracle itself equals TFLM's reference interpreter is shown in test_tflm_parity.py; what is written here
holds for the C that mcufuse emits for a core, streamed, packed and planned as a user gets it.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from conftest import MODELS
from mcufuse.baremetal import build, run
from mcufuse.config import Config, Input, InputMode, load_config
from mcufuse.paths import firmware_dir
from mcufuse.pipeline import Compiled, compile_network
from mcufuse.target import CORES, Core, core_by_name
from mcufuse.vectors import default_cases, make_input

NETWORKS = ("kws", "vww", "ic", "ad", "sww")
LEVELS = ("-O0", "-Os", "-O3")
FEW, MANY = 3, 102  # a third each random, extreme, smooth
CORE_NAMES = tuple(core.name for core in CORES)
Case = tuple[np.ndarray, ...]


def config_of(network: str, *, rows: bool = False) -> Config:
    """The configuration of a reference network; its C name is the short one."""
    config = load_config(MODELS / f"{network}_int8.tflite").renamed(network)
    return replace(config, input=Input(InputMode.ROWS)) if rows else config


@cache
def compiled(network: str, core: Core, rows: bool = False) -> Compiled:
    """Compiled once in each test process."""
    return compile_network(config_of(network, rows=rows), core=core)


@cache
def cases(network: str) -> tuple[tuple[Case, Case], ...]:
    """(inputs, expected outputs); what is computed for the first few serves the fast tests."""
    return tuple(case(network, i) for i in range(MANY))


@cache
def case(network: str, i: int) -> tuple[Case, Case]:
    """One generated input and the oracle's outputs for it, batch dimension left out."""
    network_c = compiled(network, core_by_name("cortex-m3"))
    kind = default_cases(i + 1)[i]
    inputs = tuple(make_input(kind.kind, kind.seed, t.dtype.value, t.shape[1:], index=k)
                   for k, t in enumerate(network_c.inputs))  # fmt: skip
    return inputs, tuple(out.reshape(-1) for out in network_c.evaluate(list(inputs)))


def write_network(network: Compiled, directory: Path) -> Path:
    """The generated directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in network.files.items():
        (directory / name).write_text(text)
    (directory / "report.json").write_text(json.dumps(network.report))
    return directory


class HostNetwork:
    """A network as a shared library of the host."""

    def __init__(self, network: Compiled, name: str, directory: Path, flags: tuple[str, ...]):
        write_network(network, directory)
        self.network = network
        library = directory / f"{name}.so"
        sources = [directory / f"{name}.c", firmware_dir() / "src" / "mcufuse.c"]
        warnings = ("-Wall", "-Wextra", "-Werror")
        include = f"-I{firmware_dir() / 'include'}"
        command = ["gcc", "-shared", "-fPIC", "-std=c11", *warnings, *flags, include, *map(str, sources)]
        subprocess.run([*command, "-o", str(library)], check=True)
        self.lib = ctypes.CDLL(str(library))
        self.model = ctypes.byref(ctypes.c_char.in_dll(self.lib, f"{name}_model"))
        for function in ("mcufuse_input", "mcufuse_output"):
            getattr(self.lib, function).restype = ctypes.c_void_p
        assert self.lib.mcufuse_init(self.model) == 0

    def infer(self, inputs: Case, *, rows: bool = False) -> Case:
        """One inference."""
        for i, array in enumerate(inputs):
            data = np.ascontiguousarray(array)
            if rows and i == 0:
                for row in data.reshape(self.network.inputs[0].hwc[0], -1):
                    held = np.ascontiguousarray(row)
                    assert self.lib.mcufuse_feed_rows(self.model, held.ctypes.data_as(ctypes.c_void_p), 1) == 0
            else:
                ctypes.memmove(self.lib.mcufuse_input(self.model, i), data.ctypes.data, data.nbytes)
        assert self.lib.mcufuse_run(self.model) == 0
        outputs = []
        for i, tensor in enumerate(self.network.outputs):
            buffer = (ctypes.c_char * tensor.bytes).from_address(self.lib.mcufuse_output(self.model, i))
            outputs.append(np.frombuffer(bytes(buffer), tensor.dtype.value))
        return tuple(outputs)


def assert_bits(got: tuple[np.ndarray, ...], want: Case, where: str) -> None:
    """0 differences."""
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(a).reshape(-1), b, err_msg=where)


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("network", NETWORKS)
def test_host(network: str, level: str, core: str, tmp_path: Path) -> None:
    """All inputs on the host, for the plain and for the DSP kernels' packing and schedule."""
    host = HostNetwork(compiled(network, core_by_name(core)), network, tmp_path, (level,))
    for i, (inputs, expected) in enumerate(cases(network)):
        assert_bits(host.infer(inputs), expected, f"{network} input {i}")


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("network", ["kws", "vww", "ic"])
def test_host_fed_by_rows(network: str, core: str, tmp_path: Path) -> None:
    host = HostNetwork(compiled(network, core_by_name(core), True), network, tmp_path, ("-O2",))
    for i, (inputs, expected) in enumerate(cases(network)[:12]):
        assert_bits(host.infer(inputs, rows=True), expected, f"{network} input {i}")


@pytest.mark.parametrize("network", NETWORKS)
def test_emitted_twice_is_the_same(network: str) -> None:
    core = core_by_name("cortex-m4")
    assert compile_network(config_of(network), core=core).files == compiled(network, core).files


def on_target(network: str, core_name: str, level: str, count: int, tmp_path: Path, *, rows: bool = False) -> None:
    """Runs `count` inputs in QEMU and compares all outputs."""
    core = core_by_name(core_name)
    generated = write_network(compiled(network, core, rows), tmp_path / "generated")
    image = build(generated, core, opt=level, out_dir=tmp_path / "build")
    some = [case(network, i) for i in range(count)]
    result = run(image, inputs=[inputs for inputs, _ in some], icount=False, timeout_s=600)
    for i, (got, (_, expected)) in enumerate(zip(result.outputs, some, strict=True)):
        assert_bits(got, expected, f"{network} on {core_name} at {level}, input {i}")


@pytest.mark.qemu
@pytest.mark.parametrize("core", CORE_NAMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_target(network: str, core: str, tmp_path: Path) -> None:
    on_target(network, core, "-O2", FEW, tmp_path)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("network", ["kws", "vww", "ic"])
def test_target_fed_by_rows(network: str, core: str, tmp_path: Path) -> None:
    on_target(network, core, "-O2", FEW, tmp_path, rows=True)


@pytest.mark.qemu
@pytest.mark.parametrize("flags", [("-Og", "-g"), ("-O2", "-g", "-fno-omit-frame-pointer")], ids=" ".join)
@pytest.mark.parametrize("core_name", ["cortex-m3", "cortex-m4", "cortex-m55"])
def test_compiles_for_a_debugger(core_name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    core = core_by_name(core_name)
    generated = write_network(compiled("vww", core), tmp_path)
    include = firmware_dir() / "include"
    command = ["arm-none-eabi-gcc", *core.gcc, *flags, "-DMCUFUSE_DEBUG", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, f"-I{include}", "-c", generated / "vww.c", "-o", tmp_path / "vww.o"], check=True)


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("core", CORE_NAMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_target_many(network: str, core: str, level: str, tmp_path: Path) -> None:
    """All inputs; at -O0, which takes ten times the instructions, some, unless MCUFUSE_ALL_INPUTS is set."""
    all_inputs = level != "-O0" or "MCUFUSE_ALL_INPUTS" in os.environ
    on_target(network, core, level, MANY if all_inputs else 12, tmp_path)


LIMITS = {  # arena bytes, inputs, outputs and scratch included: resident, fed by rows
    "kws": (7_168, 6_656),
    "ic": (16_896, 14_336),
    "vww": (29_696, 15_872),
    "ad": (768, None),
    "sww": (4_096, None),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_arena(network: str) -> None:
    resident, fed = LIMITS[network]
    core = core_by_name("cortex-m3")
    plan = compiled(network, core).plan
    assert plan.arena_bytes <= resident
    assert plan.arena_bytes == plan.lower_bound
    if fed is not None:
        assert compiled(network, core, True).plan.arena_bytes <= fed
