# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: help, exit codes, and what is (not) written."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcufuse import __version__
from mcufuse.baremetal import build
from mcufuse.cli import guarded, main
from mcufuse.commands import COMMANDS
from mcufuse.errors import Problem, UserError
from mcufuse.output import depfile_text, write_files
from mcufuse.paths import checkout_dir, firmware_dir
from mcufuse.progress import PlainProgress, Progress, TerminalProgress, make_progress
from mcufuse.target import core_by_name


def run(repo: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "mcufuse", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(repo / "generator")},
    )


# ---- help and usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [c.name for c in COMMANDS])
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "-h"])
    assert ended.value.code == 0
    assert f"example: mcufuse {command}" in capsys.readouterr().out


def test_help_and_version(repo: Path) -> None:
    text = run(repo, "-h").stdout
    assert all(f" {command.name} " in text for command in COMMANDS)
    assert run(repo, "version").stdout == run(repo, "--version").stdout == f"mcufuse {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["nonsense"], ["compile"], ["compile", "x.yaml"], ["run"], ["run", "x", "--opt", "-O9"],
        ["run", "x", "--inputs", "0"], ["compile", "x", "-o", "d", "--vectors", "-1"], ["doctor", "extra"],
    ],
)  # fmt: skip
def test_usage_errors_are_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: mcufuse" in capsys.readouterr().err


@pytest.mark.parametrize("written", [["--opt", "-Os"], ["--opt=-Os"]])
def test_opt_may_be_written_with_a_space(written: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "missing.yaml", *written, "--core", "m4"]) == 1  # and not 2
    assert "missing.yaml: cannot be read" in capsys.readouterr().err


def test_commands_start_without_heavy_packages(repo: Path) -> None:
    code = "import sys, mcufuse.cli as c; c.make_parser(); print({'numpy', 'onnx', 'rich'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(repo / "generator")},
    )
    assert done.stdout.strip() == "set()"


# ---- how commands end ------------------------------------------------------------------------------------


def ends(error: BaseException) -> int:
    def command() -> int:
        raise error

    return guarded(command, ["run", "kws.yaml"])


def test_user_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(UserError("too large", place="kws.yaml:3: budget.ram", hint="give more")) == 1
    assert capsys.readouterr().err == "error: kws.yaml:3: budget.ram: too large\n  hint: give more\n"


def test_several_user_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(UserError(problems=[Problem("one", "a"), Problem("two", "b")])) == 1
    assert capsys.readouterr().err == "error: 2 problems\na: one\nb: two\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOENT])
def test_the_systems_errors_name_the_file(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(OSError(number, os.strerror(number), "out/kws.c")) == 1
    assert capsys.readouterr().err == f"error: out/kws.c: {os.strerror(number)}\n"


def test_memory_and_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(MemoryError()) == 1
    assert ends(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "error: not enough memory for this network\ninterrupted\n"


@pytest.mark.parametrize(
    "error", [KeyError("x"), AssertionError("no"), RecursionError("deep"), OSError(errno.EIO, "io")]
)
def test_bugs_of_ours(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ends(error) == 70
    text = capsys.readouterr().err
    assert "this is a bug in mcufuse" in text
    assert "please report it" in text
    (saved,) = tmp_path.iterdir()
    assert str(saved) in text
    details = saved.read_text(encoding="utf-8")
    assert "Traceback" in details
    assert "command: mcufuse run kws.yaml" in details
    assert "Traceback" not in text


def test_a_bug_on_a_full_disk_is_still_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> tuple[int, str]:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert ends(KeyError("x")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_reader_that_goes_away(repo: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m mcufuse doctor | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(repo / "generator")},
    )
    assert done.stderr == ""


# ---- writing ---------------------------------------------------------------------------------------------


def test_files_are_written_once(tmp_path: Path) -> None:
    target = tmp_path / "new" / "dir"
    assert write_files(target, {"a.c": "int a;\n", "b.bin": b"\x00"}) == ["a.c", "b.bin"]
    before = (target / "a.c").stat().st_mtime_ns
    time.sleep(0.01)
    assert write_files(target, {"a.c": "int a;\n", "b.bin": b"\x01"}) == ["b.bin"]
    assert (target / "a.c").stat().st_mtime_ns == before
    assert (target / "b.bin").read_bytes() == b"\x01"
    assert sorted(p.name for p in target.iterdir()) == ["a.c", "b.bin"]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "out", {"a.c": "old"})
    plain = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "b.c":
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return plain(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match="out: cannot be written: No space left on device"):
        write_files(tmp_path / "out", {"a.c": "new", "b.c": "new"})
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.c"]
    assert (tmp_path / "out" / "a.c").read_text() == "old"
    with pytest.raises(UserError, match="No space left"):
        write_files(tmp_path / "fresh" / "deep", {"b.c": "new"})
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_directory_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_files(tmp_path / "link", {"a.c": "x"})
    assert (tmp_path / "real" / "a.c").read_text() == "x"


def test_things_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot be written"):
            write_files(place, {"a.c": "x"})
    (tmp_path / "out" / "a.c").mkdir(parents=True)
    with pytest.raises(UserError, match=r"a\.c is a directory"):
        write_files(tmp_path / "out", {"a.c": "x", "b.c": "x"})
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.c"]
    assert (tmp_path / "file").read_text() == "x"


def test_depfile() -> None:
    text = depfile_text(Path("/o/kws.c"), [Path("/b c/#x.py"), Path("/a$.yaml"), Path("/a$.yaml")])
    assert text == "/o/kws.c: \\\n  /a$$.yaml \\\n  /b\\ c/\\#x.py\n"


# ---- progress --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with make_progress(stream=stream) as progress:
        assert isinstance(progress, PlainProgress)
        progress("importing")
        now[0] += 0.2
        progress("planning")
        now[0] += 3.25
    assert stream.getvalue() == "mcufuse: importing\nmcufuse: planning\nmcufuse: planning: 3.2 s\n"


def test_failed_phase_claims_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()

    def fail() -> None:
        with make_progress(stream=stream) as progress:
            progress("planning")
            now[0] += 9
            raise UserError("no")

    with pytest.raises(UserError):
        fail()
    assert stream.getvalue() == "mcufuse: planning\n"


def test_terminal_progress_survives_markup() -> None:
    stream = Terminal()
    with make_progress(stream=stream) as progress:
        assert isinstance(progress, TerminalProgress)
        progress("importing [bold]x[/nonsense]")
        progress.note("3 of 4 [/]")
    assert make_progress(quiet=True, stream=stream).__class__ is Progress


# ---- configurations on the command line ------------------------------------------------------------------


def test_problems_of_a_file_are_listed_and_nothing_is_written(workspace: Path, repo: Path) -> None:
    (workspace / "kws.yaml").write_text("modle: x\nbudget: {ram: many}\n", encoding="utf-8")
    done = run(repo, "compile", "kws.yaml", "-o", "out", cwd=workspace)
    assert done.returncode == 1
    assert done.stderr.startswith("error: 3 problems\nkws.yaml:1:1: modle: unknown key\n")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (workspace / "out").exists()


def test_model_that_is_none(workspace: Path, repo: Path) -> None:
    (workspace / "bad.tflite").write_bytes(b"not a model")
    done = run(repo, "compile", "bad.tflite", "-o", "out", cwd=workspace)
    assert done.returncode == 1, done.stderr
    assert "bad.tflite" in done.stderr
    assert not (workspace / "out").exists()


def test_unknown_core(workspace: Path, repo: Path) -> None:
    done = run(repo, "compile", "kws_int8.tflite", "-o", "out", "--core", "avr", cwd=workspace)
    assert done.returncode == 1
    assert 'unknown core "avr"' in done.stderr


def test_budget_of_the_plan(workspace: Path, repo: Path) -> None:
    (workspace / "kws.yaml").write_text("model: kws_int8.tflite\nbudget:\n  ram: 100\n  flash: 200\n", encoding="utf-8")
    done = run(repo, "compile", "kws.yaml", "-o", "out", "-q", cwd=workspace)
    assert done.returncode == 1
    assert "kws.yaml:3: budget.ram: 100 B, but kws needs" in done.stderr
    assert "kws.yaml:4: budget.flash: 200 B, but kws needs" in done.stderr
    assert "hint: optimize: ram" in done.stderr
    assert not (workspace / "out").exists()


def test_compile(workspace: Path, repo: Path) -> None:
    (workspace / "kws.yaml").write_text("model: kws_int8.tflite\n", encoding="utf-8")
    arguments = ["compile", "kws.yaml", "-o", "out", "--depfile", "out/kws.d", "--vectors", "2"]
    done = run(repo, *arguments, cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "mcufuse: importing kws_int8.tflite" in done.stderr
    out = workspace / "out"
    names = ["kws.c", "kws.d", "kws.h", "kws_vectors.c", "kws_vectors.h", "report.json"]
    assert sorted(p.name for p in out.iterdir()) == names
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert (report["name"], report["core"]) == ("kws", "cortex-m3")
    depfile = (out / "kws.d").read_text(encoding="utf-8")
    assert depfile.startswith(f"{out}/kws.c:")
    for source in (workspace / "kws.yaml", workspace / "kws_int8.tflite", repo / "generator/mcufuse/pipeline.py"):
        assert f"  {source}" in depfile
    before = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    assert run(repo, *arguments, "-q", cwd=workspace).stderr == ""
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir()} == before


def test_compile_for_a_board(workspace: Path, repo: Path) -> None:
    (workspace / "dotconfig").write_text("CONFIG_CPU_CORTEX_M4=y\n", encoding="utf-8")
    (workspace / "m3.yaml").write_text("model: kws_int8.tflite\ntarget: {core: m3}\n", encoding="utf-8")
    done = run(repo, "compile", "m3.yaml", "-o", "out", "--dotconfig", "dotconfig", cwd=workspace)
    assert done.returncode == 1
    assert "m3.yaml:2: target.core: cortex-m3, but the build is for cortex-m4" in done.stderr
    done = run(
        repo, "compile", "kws_int8.tflite", "-o", "out", "--dotconfig", "dotconfig", "--name", "net", cwd=workspace
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((workspace / "out" / "report.json").read_text(encoding="utf-8"))
    assert (report["name"], report["core"]) == ("net", "cortex-m4")


def test_dump(workspace: Path, repo: Path) -> None:
    done = run(repo, "compile", "kws_int8.tflite", "-o", "out", "--dump-after", "import", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("graph ")
    done = run(repo, "compile", "kws_int8.tflite", "-o", "out", "--dump-after", "nothing", cwd=workspace)
    assert done.returncode == 1
    assert 'error: --dump-after: no pass is called "nothing"\n  hint: passes: import, ' in done.stderr


@pytest.mark.qemu
def test_run(workspace: Path, repo: Path) -> None:
    done = run(repo, "run", "kws_int8.tflite", "--inputs", "3", "--json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["instructions"] > report["macs"]
    assert report["code_bytes"] > 0
    assert report["stack_bytes"] >= report["stack_measured_bytes"] > 0
    assert report["verified"].startswith("3 inferences on cortex-m3 (QEMU): 0 of 36 outputs differ")


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["m0plus", "m4", "m55"])
def test_run_fed_by_rows(workspace: Path, repo: Path, core: str) -> None:
    (workspace / "kws.yaml").write_text("model: kws_int8.tflite\ninput: {mode: rows}\n", encoding="utf-8")
    done = run(repo, "run", "kws.yaml", "--core", core, "--opt", "-Os", "--inputs", "3", "-q", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert f"3 inferences on cortex-{core} (QEMU): 0 of 36 outputs differ\n" in done.stdout
    assert "figures hold for -Os, " in done.stdout


@pytest.mark.qemu
def test_bench(workspace: Path, repo: Path, models: Path) -> None:
    model = str(models / "ad_int8.tflite")
    done = run(repo, "bench", model, "--core", "m3", "--core", "m4", "--json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["core"] for row in rows] == ["cortex-m3", "cortex-m4"]
    for row in rows:
        assert row["differing"] == 0
        assert row["instructions"] > row["macs"]
        assert row["generate_cpu_s"] > 0
        assert row["generate_peak_bytes"] > 1 << 20
    assert "ad_int8  cortex-m3  264,192" in run(repo, "bench", model, "-q", cwd=workspace).stdout


@pytest.mark.qemu
def test_check_of_an_image(workspace: Path, repo: Path) -> None:
    assert run(repo, "compile", "kws_int8.tflite", "-o", "out", "--name", "kws", cwd=workspace).returncode == 0
    image = build(workspace / "out", core_by_name("m3"), out_dir=workspace / "build")
    done = run(repo, "check", str(image.elf), "--report", "out/report.json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "network kws" in done.stdout
    (workspace / "kws.yaml").write_text("model: kws_int8.tflite\nbudget: {ram: 500}\n", encoding="utf-8")
    done = run(repo, "check", str(image.elf), "--report", "out/report.json", "--config", "kws.yaml", cwd=workspace)
    assert done.returncode == 1
    assert "kws.yaml:2: budget.ram: 500 B, but" in done.stderr
    assert run(repo, "check", str(image.elf), "--config", "kws.yaml", cwd=workspace).returncode == 1
    assert run(repo, "check", str(image.elf), cwd=workspace).returncode == 0
    done = run(repo, "check", "kws_int8.tflite", cwd=workspace)
    assert done.returncode == 1
    assert "kws_int8.tflite: not a readable ELF file" in done.stderr


@pytest.mark.qemu
def test_budget_after_the_link(workspace: Path, repo: Path) -> None:
    assert run(repo, "compile", "kws_int8.tflite", "-o", "out", cwd=workspace).returncode == 0
    planned = json.loads((workspace / "out" / "report.json").read_text(encoding="utf-8"))["weights_bytes"]
    (workspace / "kws.yaml").write_text(
        f"model: kws_int8.tflite\nbudget:\n  flash: {planned + 500}\n", encoding="utf-8"
    )
    done = run(repo, "run", "kws.yaml", "--inputs", "1", "-q", cwd=workspace)
    assert done.returncode == 1
    assert f"kws.yaml:3: budget.flash: {planned + 500:,} B, but kws needs" in done.stderr
    assert "+ code" in done.stderr


# ---- where things are ------------------------------------------------------------------------------------


def test_paths(repo: Path) -> None:
    assert checkout_dir() == repo
    assert firmware_dir() == repo / "firmware"


def test_an_incomplete_installation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcufuse.paths._PACKAGE", tmp_path / "a" / "b")
    assert checkout_dir() is None
    with pytest.raises(UserError, match="headers of mcufuse are missing"):
        firmware_dir()
    header = tmp_path / "a" / "b" / "_firmware" / "include" / "mcufuse" / "mcufuse.h"
    header.parent.mkdir(parents=True)
    header.touch()
    assert firmware_dir() == tmp_path / "a" / "b" / "_firmware"
