# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`west mcufuse` in a real workspace: builds, budgets, rebuilds, placement and the self-test in QEMU."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from instruction_counts import load_baselines
from mcufuse.elf import read_image
from mcufuse.zephyr.dotconfig import read_dotconfig
from zephyr_support import REPO, TOPDIR, environment, fresh, once, west, workspace

pytestmark = pytest.mark.zephyr

KWS = REPO / "examples" / "kws" / "kws.yaml"
MODELS = REPO / "examples" / "models"
BOARD = "qemu_cortex_m3"
LM3S_CYCLE_NS = 80  # QEMU's lm3s6965evb out of reset: 200 MHz divided by 16
AN547_CYCLE_NS = 31.25  # QEMU's mps3-an547: 32 MHz


def running_qemus(build: Path) -> list[str]:
    """Command lines of emulators that run an image of `build`."""
    lines = [
        path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
    ]
    return [line for line in lines if "qemu-system" in line and f"{build}/" in line]


@pytest.fixture
def kws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of the keyword-spotting network, built and run once in a test run; its output is in run.log."""
    build = TOPDIR / "build" / "test_kws"

    def make() -> None:
        workspace()
        done = west("mcufuse", "run", KWS, "-b", BOARD, "-d", fresh("test_kws"), "--timeout", "600")
        assert done.returncode == 0, done.stdout
        (build / "run.log").write_text(done.stdout)

    once("kws", make)
    return build


def test_build_and_run(kws: Path) -> None:
    log = (kws / "run.log").read_text()
    assert "mcufuse: kws: vector 3 (random): PASS" in log
    assert log.rstrip().endswith("mcufuse: self-test passed")
    assert "FAIL" not in log
    assert running_qemus(kws) == []
    the_stack_is_computed(kws, "kws", log)


def the_stack_is_computed(build: Path, name: str, log: str) -> None:
    """The thread's stack follows from the network's bound, and what was used of it stays within."""
    header = (build / "mcufuse" / name / f"{name}_stack.h").read_text()
    computed = int(re.findall(rf"#define {name.upper()}_STACK_BYTES (\d+)\n", header)[0])
    bound = int(re.findall(r"stack at most ([\d,]+) B", log)[0].replace(",", ""))
    assert computed == bound, "known before the link, and the same after it"
    config = read_dotconfig(build / "zephyr" / ".config")
    reserve, console = (config.number(f"MCUFUSE_APP_STACK_{key}") for key in ("RESERVE", "CONSOLE"))
    stack = read_image(build / "zephyr" / "zephyr.elf").symbol("network_stack")
    assert stack is not None
    assert stack.size == -(-(max(computed, console) + reserve) // 8) * 8
    used, size = map(int, re.findall(r"mcufuse: stack (\d+) of (\d+) B used", log)[0])
    assert size == stack.size
    assert used <= size
    assert bound <= used <= bound + reserve or used <= console + reserve


def test_the_largest_network_leaves_room_for_an_application() -> None:
    """Person detection on 64 KB of RAM: its stack is computed, and at least 24 KB stay free."""
    build = fresh("test_vww")
    done = west("mcufuse", "run", MODELS / "vww_int8.tflite", "-b", BOARD, "-d", build, "--timeout", "600")
    assert done.returncode == 0, done.stdout
    the_stack_is_computed(build, "vww_int8", done.stdout)
    free = int(re.findall(r"^RAM .* ([\d,]+) B free", done.stdout, re.MULTILINE)[0].replace(",", ""))
    assert free >= 24 * 1024


def test_zephyr_costs_no_speed(kws: Path) -> None:
    """An inference on Zephyr takes the instructions of the bare-metal one: same flags, same code; interrupts are few.

    QEMU's cycle counter runs with the emulated board's clock, and an instruction takes 2^shift ns (-icount).
    """
    assert_as_bare_metal((kws / "run.log").read_text(), kws, LM3S_CYCLE_NS, "cortex-m3")


def test_zephyr_costs_no_speed_with_vectors() -> None:
    """The same on a core with MVE, whose registers Zephyr saves with the FPU's."""
    build = fresh("test_kws_an547")
    icount = ["--", "-DCONFIG_QEMU_ICOUNT=y", "-DCONFIG_QEMU_ICOUNT_SHIFT=6"]
    done = west("mcufuse", "run", KWS, "-b", "mps3/corstone300/an547", "-d", build, "--timeout", "600", *icount)
    assert done.returncode == 0, done.stdout
    assert_as_bare_metal(done.stdout, build, AN547_CYCLE_NS, "cortex-m55")


def assert_as_bare_metal(log: str, build: Path, cycle_ns: float, core: str) -> None:
    cycles = [int(n) for n in re.findall(r"PASS, (\d+) cycles", log)]
    shift = int(re.findall(r"CONFIG_QEMU_ICOUNT_SHIFT=(\d+)", (build / "zephyr" / ".config").read_text())[0])
    instructions = [n * cycle_ns / 2**shift for n in cycles]
    assert len(instructions) == 4
    assert instructions == pytest.approx([load_baselines()[core]["kws"]] * 4, rel=0.02)


def test_report_of_the_image(kws: Path) -> None:
    log = (kws / "run.log").read_text()
    planned = json.loads((kws / "mcufuse" / "kws" / "report.json").read_text())
    image = read_image(kws / "zephyr" / "zephyr.elf")
    arena = image.symbol("kws_arena")
    assert arena is not None
    assert arena.size == planned["arena_bytes"]
    assert f"network kws: arena {arena.size:,} B" in log
    for region in ("FLASH", "RAM"):
        used = int(re.findall(rf"{region} +([\d,]+) B of", log)[0].replace(",", ""))
        assert re.search(rf"{region}: +{used} B|{region}: +{used / 1024:g} KB", log), "not what ld says"
    parts = re.findall(
        r"^  (?:network kws|Zephyr|application|padding|mcufuse runtime|libgcc and libc|vectors of kws) ",
        log,
        re.MULTILINE,
    )
    assert len(parts) >= 9
    assert "of the budget's" in log


def test_report_as_json(kws: Path) -> None:
    done = west("mcufuse", "report", "-d", kws, "--json")
    assert done.returncode == 0, done.stdout
    (report,) = json.loads(done.stdout)
    assert report["name"] == "kws"
    assert report["stack_bytes"] > 0
    assert 1_000 < report["code_bytes"] < 36_000


def test_check_of_an_elf(kws: Path, tmp_path: Path) -> None:
    done = west("mcufuse", "check", kws / "zephyr" / "zephyr.elf")
    assert done.returncode == 0, done.stdout
    assert "of the budget's" in done.stdout  # it found the build directory around the file
    # Elsewhere, and without a map, the ELF is all there is.
    shutil.copy(kws / "zephyr" / "zephyr.elf", tmp_path / "alone.elf")
    done = west("mcufuse", "check", tmp_path / "alone.elf")
    assert done.returncode == 0, done.stdout
    assert re.search(r"network kws: arena [\d,]+ B, state \d+ B, stack at most \d+ B", done.stdout)


def test_nothing_to_do_the_second_time(kws: Path) -> None:
    done = west("mcufuse", "build", KWS, "-b", BOARD, "-d", kws)
    assert done.returncode == 0, done.stdout
    assert "ninja: no work to do." in done.stdout
    assert "Re-running CMake" not in done.stdout
    assert "-- Configuring done" not in done.stdout


def test_a_breach_after_the_link(kws: Path, tmp_path: Path) -> None:
    """The plan fits into the budget; with the code it does not, which only the image tells."""
    report = json.loads((kws / "mcufuse" / "kws" / "report.json").read_text())
    tight = tmp_path / "kws.yaml"
    tight.write_text(f"model: {MODELS / 'kws_int8.tflite'}\nbudget: {{flash: {report['weights_bytes'] + 512}}}\n")
    done = west("mcufuse", "build", tight, "-b", BOARD, "-d", kws)
    restored = west("mcufuse", "build", KWS, "-b", BOARD, "-d", kws)
    assert done.returncode == 1, done.stdout
    message = done.stdout.rpartition("error: ")[2]
    assert f"{tight}:2: budget.flash:" in message
    assert "largest in the image: kws_" in message
    assert "hint: optimize: flash" in message
    assert restored.returncode == 0, restored.stdout


def test_a_network_too_large_for_the_board_is_refused_before_compiling(tmp_path: Path) -> None:
    build = fresh("test_ad")
    done = west("mcufuse", "build", MODELS / "ad_int8.tflite", "-b", BOARD, "-d", build)
    assert done.returncode == 1, done.stdout
    last = done.stdout.rpartition("error: ")[2]
    assert "weights of ad_int8" in last
    assert "do not fit into FLASH of qemu_cortex_m3/ti_lm3s6965: 262,144 B" in last
    compiled = [path.name for path in build.rglob("*.obj") if "mcufuse" in str(path) or "kernel" in str(path)]
    assert compiled == []


def test_an_image_too_large_for_the_board_names_its_parts(kws: Path) -> None:
    """What Zephyr takes on top shows only at the link; ld would not say whose it is."""
    build = fresh("test_overflow")
    done = west("mcufuse", "build", KWS, "-b", BOARD, "-d", build, "--", "-DCONFIG_MAIN_STACK_SIZE=62000")
    assert done.returncode == 1, done.stdout
    last = done.stdout.rpartition("error: ")[2]
    assert re.search(r"the image needs [\d,]+ B of RAM, which has 65,536 B: [\d,]+ B too much", last)
    assert "arena of kws" in last
    assert "hint:" in last


def test_an_unknown_board(tmp_path: Path) -> None:
    done = west("mcufuse", "build", KWS, "-b", "qemu_cortex_m33", "-d", fresh("test_unknown"))
    assert done.returncode == 1
    assert "No board named 'qemu_cortex_m33' found" in done.stdout
    assert "Traceback" not in done.stdout


def ninja(build: Path, *targets: str) -> str:
    done = subprocess.run(
        ["ninja", "-C", str(build), *targets],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(log: str) -> set[str]:
    return {Path(name).name for name in re.findall(r"Building C object (\S+)", log)}


def touch(path: Path) -> None:
    """Makes `path` newer than everything that has been built."""
    path.touch()


def test_exactly_what_is_needed_is_rebuilt() -> None:
    """The rebuild matrix, on the network's archive and the application's: Zephyr's own objects play no part.

    With a copy of the generator, which nobody edits meanwhile.
    """
    source = fresh("test_rebuild_source")
    source.mkdir(parents=True)
    generator = source / "generator"
    shutil.copytree(REPO / "generator", generator, ignore=shutil.ignore_patterns("__pycache__"))
    weights, config = source / "net.tflite", source / "net.yaml"
    shutil.copy(MODELS / "kws_int8.tflite", weights)
    config.write_text("model: net.tflite\n")
    build = fresh("test_rebuild")
    done = west(
        "mcufuse",
        "build",
        config,
        "-b",
        BOARD,
        "-d",
        build,
        "--cmake-only",
        "--",
        f"-DMCUFUSE_GENERATOR_DIR={generator}",
    )
    assert done.returncode == 0, done.stdout
    targets = ("libmcufuse_model_net.a", "app/libapp.a")
    assert {"net.c.obj", "net_vectors.c.obj", "main.c.obj"} <= compiled(ninja(build, *targets))

    assert "no work to do" in ninja(build, *targets)

    for same in (config, weights, generator / "mcufuse" / "ir.py"):
        touch(same)
        log = ninja(build, *targets)
        assert "mcufuse: generating net" in log, same
        assert compiled(log) == set(), same
        assert "no work to do" in ninja(build, *targets)

    shutil.copy(MODELS / "sww_int8.tflite", weights)
    touch(weights)
    log = ninja(build, *targets)
    assert "mcufuse: fitting net" in log
    assert compiled(log) >= {"net.c.obj", "net_vectors.c.obj"}

    # Other weights of the same shape: the code changes, what the application sees does not.
    data = bytearray(weights.read_bytes())
    data[find_weights(bytes(data))] ^= 1
    weights.write_bytes(data)
    touch(weights)
    assert compiled(ninja(build, *targets)) - {"net_vectors.c.obj"} == {"net.c.obj"}

    # Another configuration of Zephyr may mean another core: the generator has to look.
    done = west("build", "-d", build, "--cmake-only", "--", "-DCONFIG_MCUFUSE_SELFTEST_VECTORS=2")
    assert done.returncode == 0, done.stdout
    assert "mcufuse: generating net" in ninja(build, *targets)

    # A file that vanished: the generator's own message, not ninja's.
    weights.rename(source / "gone.tflite")
    done = west("mcufuse", "build", config, "-b", BOARD, "-d", build)
    assert done.returncode == 1
    assert f"{config}:1" in done.stdout
    assert "missing and no known rule" not in done.stdout


def find_weights(data: bytes) -> int:
    """Where a byte of the largest constant of a .tflite file stands."""
    import tflite

    model = tflite.Model.GetRootAs(data, 0)
    buffers = [model.Buffers(i) for i in range(model.BuffersLength())]
    largest = max(buffers, key=lambda b: b.DataLength())
    at = data.find(largest.DataAsNumpy().tobytes())
    assert at > 0
    return at + largest.DataLength() // 2


def test_placement_by_devicetree() -> None:
    """samples/placement: RAM and flash are cut in two, and the network gets the upper halves."""
    build = fresh("test_placement")
    done = west("mcufuse", "run", "-s", REPO / "samples" / "placement", "-b", BOARD, "-d", build, "--timeout", "600")
    assert done.returncode == 0, done.stdout
    assert "arena at 0x20008000" in done.stdout
    image = read_image(build / "zephyr" / "zephyr.elf")
    arena = image.symbol("kws_arena")
    assert arena is not None
    assert arena.address == 0x20008000
    weights = next(s for s in image.sections if s.name == "mcufuse_weights_WEIGHTS")
    report = json.loads((build / "mcufuse" / "kws" / "report.json").read_text())
    assert weights.address == 0x20000
    assert weights.size >= report["weights_bytes"]
    regions = {region.name: region for region in image.regions}
    assert regions["ARENA"].used == arena.size
    assert regions["FLASH"].length == 128 * 1024


@pytest.mark.parametrize("place", ["DTCM", "&dtcm"])
def test_a_place_that_zephyr_uses_is_refused(place: str) -> None:
    """The data TCM of this board is Zephyr's RAM: the linker would put both on top of each other, silently."""
    source = fresh("test_alias_source")
    source.mkdir(parents=True)
    config = source / "net.yaml"
    config.write_text(f'model: {MODELS / "kws_int8.tflite"}\nplacement: {{arena: "{place}"}}\n')
    build = TOPDIR / "build" / "test_alias"
    done = west(
        "mcufuse", "build", config, "-b", "mps3/corstone300/an547", "-d", build, "-t", "mcufuse_gen_net", "-p", "auto"
    )
    assert done.returncode == 1, done.stdout
    last = done.stdout.rpartition("error: ")[2]
    assert f"placement.arena: {place}: shares memory with chosen zephyr,sram" in last
    assert "ISRAM" in last


@pytest.mark.parametrize(
    ("board", "module"), [("nucleo_l4r5zi", "stm32"), ("nucleo_h563zi", "stm32"), ("nrf52840dk/nrf52840", "nordic")]
)
@pytest.mark.slow
def test_development_boards_build(board: str, module: str) -> None:
    """Where the workspace has the vendor's module, a whole image; elsewhere Zephyr's complaint, no traceback."""
    build = fresh(f"test_{board.partition('/')[0]}")
    done = west("mcufuse", "build", KWS, "-b", board, "-d", build)
    if (workspace() / "modules" / "hal" / module / "zephyr" / "module.yml").is_file():
        assert done.returncode == 0, done.stdout
        assert "network kws: arena" in done.stdout
    else:
        assert done.returncode == 1
        assert "Traceback" not in done.stdout


def test_missing_packages_are_named(tmp_path: Path) -> None:
    """West runs in its own interpreter, which may lack what we need: a message with the command that helps."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n_find = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name in ('onnx', 'numpy') else _find(name, package)\n"
    )
    done = west("mcufuse", "build", KWS, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert done.returncode == 1
    assert "missing Python packages: numpy onnx" in done.stdout
    assert "-m pip install -r" in done.stdout
    assert "Traceback" not in done.stdout


def test_help_lists_the_verbs() -> None:
    done = west("mcufuse", "-h")
    assert done.returncode == 0
    assert "west mcufuse build kws.yaml -b qemu_cortex_m3" in done.stdout
