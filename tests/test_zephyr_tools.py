# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The parts around west: watched processes, what the linker and twister say, command lines. No Zephyr needed."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from west.manifest import ImportFlag, Manifest

from mcufuse.errors import UserError
from mcufuse.zephyr import build as build_module
from mcufuse.zephyr import verbs
from mcufuse.zephyr.builds import BuildDir, default_build_dir
from mcufuse.zephyr.linker import BuildWatch
from mcufuse.zephyr.process import Outcome, run_watched
from mcufuse.zephyr.twister import read_outcome
from mcufuse.zephyr.workspace import project_env, toolchain_env

PYTHON = sys.executable


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_lines_are_seen_and_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    outcome = run_watched(
        [PYTHON, "-c", "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)"],
        on_line=lambda line: bool(lines.append(line)),
    )
    assert outcome == Outcome(3)
    assert sorted(lines) == ["a", "b"]
    assert sorted(capfd.readouterr().out.split()) == ["a", "b"]


@pytest.mark.parametrize("stop", ["line", "time"])
def test_children_of_a_stopped_command_are_ended(stop: str) -> None:
    """As ninja starts QEMU: the child must not outlive the command."""
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    seen: list[str] = []

    def on_line(line: str) -> bool:
        seen.append(line)
        return stop == "line"

    start = time.monotonic()
    outcome = run_watched([PYTHON, "-c", program], on_line=on_line, timeout=5 if stop == "time" else 60, echo=False)
    assert (outcome.stopped, outcome.timed_out) == (stop == "line", stop == "time")
    assert time.monotonic() - start < 30
    end = time.monotonic() + 10
    while alive(int(seen[0])) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(int(seen[0]))


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(UserError, match="no-such-program: cannot start"):
        run_watched(["no-such-program"], on_line=lambda _: False)


OVERFLOW = """\
[136/142] Linking C executable zephyr/zephyr_pre0.elf
FAILED: zephyr/zephyr_pre0.elf
ld.bfd: zephyr/zephyr_pre0.elf section `noinit' will not fit in region `RAM'
ld.bfd: region `RAM' overflowed by 10560 bytes
collect2: error: ld returned 1 exit status
"""


def test_an_overflow_names_who_takes_the_memory() -> None:
    watch = BuildWatch()
    for line in OVERFLOW.splitlines():
        assert watch(line) is False
    report = {"name": "kws", "arena_bytes": 60_000, "state_bytes": 20, "weights_bytes": 30_000}
    (problem,) = watch.problems([report], {"RAM": 65_536})
    assert "the image needs 76,096 B of RAM, which has 65,536 B: 10,560 B too much" in problem.message
    assert "arena of kws 60,000 B, Zephyr, application 16,076 B, state of kws 20 B" in problem.message
    assert "placement.arena" in problem.hint


def test_the_message_of_a_failed_step_is_kept_for_the_end() -> None:
    watch = BuildWatch()
    for line in (
        "[1/2] mcufuse: generating kws",
        "FAILED: mcufuse/kws/kws.c",
        "cd build && python -m mcufuse compile ...",
        "error: kws.yaml:3: budget.ram: 1 B, but kws needs 6,158 B",
        "  hint: optimize: ram",
        "ninja: build stopped: subcommand failed.",
    ):
        watch(line)
    assert watch.messages == ["error: kws.yaml:3: budget.ram: 1 B, but kws needs 6,158 B", "  hint: optimize: ram"]


def results(tmp_path: Path, *suites: dict[str, Any]) -> Path:
    (tmp_path / "twister.json").write_text(json.dumps({"testsuites": list(suites)}))
    return tmp_path


def suite(status: str, *cases: str, reason: str = "", platform: str = "qemu_cortex_m3") -> dict[str, Any]:
    found = {"name": "networks/a", "platform": platform, "status": status}
    found |= {"reason": reason} if reason else {}
    return found | {"testcases": [{"identifier": f"a.{i}", "status": case} for i, case in enumerate(cases)]}


def test_executed_cases_are_counted(tmp_path: Path) -> None:
    outcome = read_outcome(results(tmp_path, suite("passed", "passed", "skipped"), suite("filtered")))
    outcome.raise_if_bad("out")
    assert (outcome.executed, outcome.passed, outcome.platforms) == (1, 1, ("qemu_cortex_m3",))


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        ([], "twister executed no test case"),
        ([suite("filtered", "filtered", reason="Not supported by the toolchain")], "Not supported by the toolchain"),
        ([suite("not run", "not run")], "twister executed no test case"),  # built only
        ([suite("passed", "skipped")], "twister executed no test case"),
        (
            [suite("passed", "passed"), suite("failed", "failed", reason="Timeout")],
            "networks/a on qemu_cortex_m3: Timeout",
        ),
        ([suite("passed", "passed"), suite("error", "blocked", reason="Build failure")], "Build failure"),
        ([suite("passed", "passed"), suite("skipped", "skipped", reason="FLASH overflow")], "FLASH overflow"),
    ],
)
def test_a_success_of_nothing_is_a_failure(tmp_path: Path, suites: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_outcome(results(tmp_path, *suites)).raise_if_bad("out")


def test_no_results_at_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="twister wrote no results"):
        read_outcome(tmp_path)


@pytest.fixture
def west_calls(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> list[list[str]]:
    """The command lines that would have gone to west, which succeeds."""
    calls: list[list[str]] = []

    def record(command: list[str], **_: object) -> Outcome:
        calls.append(list(command[3:]))  # behind "python -m west"
        return Outcome(0)

    monkeypatch.setattr(build_module, "run_watched", record)
    monkeypatch.setattr(build_module, "west_config", lambda _: "")
    monkeypatch.setattr("mcufuse.zephyr.builds.west_config", lambda _: "")
    monkeypatch.setenv("ZEPHYR_BASE", str(workspace))
    monkeypatch.delenv("BOARD", raising=False)
    (workspace / "kws.yaml").write_text("model: kws_int8.tflite\n")
    return calls


def test_only_what_the_user_gave_goes_to_west(west_calls: list[list[str]], workspace: Path, repo: Path) -> None:
    assert verbs.main(["build", "kws.yaml"]) == 0
    assert west_calls == [["build", str(repo / "firmware" / "app"), "--", f"-DMCUFUSE_MODEL={workspace / 'kws.yaml'}"]]


def test_options_of_west_build_are_passed_on(west_calls: list[list[str]], workspace: Path) -> None:
    arguments = "build -S mcufuse-icount kws.yaml -b mps2/an385 -d out -p -o=-j1 --cmake-only -- -DCONFIG_LOG=y"
    assert verbs.main(arguments.split(), verbosity=1) == 0
    (call,) = west_calls
    assert call[:2] == ["-v", "build"]
    assert call[2:8] == ["-b", "mps2/an385", "-d", "out", "-p", "always"]
    assert call[8:13] == ["-S", "mcufuse-icount", "-o", "-j1", "--cmake-only"]
    assert call[14:] == ["--", "-DCONFIG_LOG=y", f"-DMCUFUSE_MODEL={workspace / 'kws.yaml'}"]


def test_an_application_of_ones_own(west_calls: list[list[str]], workspace: Path) -> None:
    (workspace / "app").mkdir()
    assert verbs.main(["build", "-s", "app", "-b", "qemu_cortex_m3"]) == 0
    assert west_calls == [["build", "-b", "qemu_cortex_m3", str(workspace / "app")]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build", "no network named, and there is no build directory yet"),
        ("build kws.yaml -s app", "CONFIG and -s exclude each other"),
        ("build nowhere.yaml", "nowhere.yaml"),
        ("check", "there is no finished Zephyr build"),
        ("check nowhere.elf", "nowhere.elf: cannot read it"),
    ],
)
def test_errors_of_the_user(
    arguments: str, message: str, west_calls: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verbs.main(arguments.split()) == 1
    assert message in capsys.readouterr().err
    assert not west_calls


@pytest.mark.parametrize("arguments", ["", "bild", "build kws.yaml extra", "check --unknown", "build --bord x"])
def test_wrong_usage(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        verbs.main(arguments.split())
    assert caught.value.code == 2
    assert "west mcufuse" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["build", "run", "test", "check", "report", "flash"])
def test_each_verb_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        verbs.main([verb, "-h"])
    assert caught.value.code == 0
    assert f"example: west mcufuse {verb}" in capsys.readouterr().out


def configured(path: Path, networks: str = "") -> Path:
    (path / "zephyr").mkdir(parents=True)
    (path / "CMakeCache.txt").write_text(
        "# a comment\n//text\nBOARD:STRING=qemu_cortex_m3\nMCUFUSE_MODEL:UNINITIALIZED=/a=b\n"
    )
    (path / "build.ninja").touch()
    (path / "zephyr" / ".config").write_text('CONFIG_KERNEL_BIN_NAME="image"\n')
    (path / "mcufuse").mkdir()
    (path / "mcufuse" / "networks.txt").write_text(networks)
    return path


def test_a_build_directory(tmp_path: Path) -> None:
    build = BuildDir(configured(tmp_path / "b", "kws\nic\n"))
    assert build.cache == {"BOARD": "qemu_cortex_m3", "MCUFUSE_MODEL": "/a=b"}
    assert build.elf == tmp_path / "b" / "zephyr" / "image.elf"
    assert build.networks == ("kws", "ic")
    assert build.reports() == []  # configured, but nothing generated yet


def test_the_image_of_a_sysbuild_directory(tmp_path: Path) -> None:
    (tmp_path / "domains.yaml").write_text(f"default: app\ndomains:\n- {{name: app, build_dir: {tmp_path / 'app'}}}\n")
    assert BuildDir.of_image(tmp_path).path == tmp_path / "app"
    assert BuildDir.of_image(tmp_path / "other").path == tmp_path / "other"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("", "build"), ("out/{board}/{app}", "out/m3/hello"), ("{source_dir}/b", "apps/hello/b")],
)
def test_the_build_directory_follows_wests_configuration(
    pattern: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mcufuse.zephyr.builds.west_config", lambda _: pattern)
    assert default_build_dir(None, "m3", tmp_path / "apps" / "hello").path == tmp_path / expected
    assert default_build_dir(Path("x"), "m3", None).path == tmp_path / "x"


def test_inside_a_build_directory_it_is_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(configured(tmp_path / "here"))
    monkeypatch.setattr("mcufuse.zephyr.builds.west_config", lambda _: "")
    assert default_build_dir(None, "", None).path == tmp_path / "here"


def test_a_toolchain_that_the_user_named_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcufuse.zephyr.workspace.Path.home", lambda: tmp_path)
    monkeypatch.setattr("mcufuse.zephyr.workspace._SDK_PLACES", (str(tmp_path),))
    monkeypatch.setattr("mcufuse.zephyr.workspace.shutil.which", lambda *_, **__: "/opt/gcc/bin/arm-none-eabi-gcc")
    found = toolchain_env({"PATH": "/bin"})
    assert (found["ZEPHYR_TOOLCHAIN_VARIANT"], found["GNUARMEMB_TOOLCHAIN_PATH"]) == ("gnuarmemb", "/opt/gcc")
    named = {"ZEPHYR_TOOLCHAIN_VARIANT": "zephyr"}
    assert toolchain_env(named) == named
    (tmp_path / "zephyr-sdk-0.17.0").mkdir()
    assert toolchain_env({}) == {}


def test_requirements_are_those_of_the_package(repo: Path) -> None:
    package = tomllib.loads((repo / "pyproject.toml").read_text())["project"]["dependencies"]
    lines = (repo / "generator" / "west" / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if not line.startswith("#")]
    assert wanted
    assert set(wanted) <= set(package)
    # The rest of the package's is for talking to boards and for west itself, which runs already.
    assert {re.split("[>=]", line)[0] for line in set(package) - set(wanted)} == {"pyserial", "west"}
    extension = (repo / "generator" / "west" / "mcufuse_west.py").read_text()
    names = re.findall(r'"\w+": "([\w-]+)"', extension.partition("NEEDED = ")[2].partition("\n")[0])
    assert {name.lower() for name in names} == {line.partition(">")[0].lower() for line in wanted}


def test_our_manifest_and_extension_command(repo: Path) -> None:
    manifest = Manifest.from_data((repo / "west.yml").read_text(), import_flags=ImportFlag.IGNORE)
    assert manifest.projects[0].west_commands == ["generator/west/west-commands.yml"]
    spec = yaml.safe_load((repo / "generator" / "west" / "west-commands.yml").read_text())
    (entry,) = spec["west-commands"]
    source = (repo / entry["file"]).read_text()
    (command,) = entry["commands"]
    assert f"class {command['class']}(WestCommand)" in source
    module = yaml.safe_load((repo / "zephyr" / "module.yml").read_text())
    for path in [module["build"]["kconfig"], module["build"]["cmake"], *module["samples"], *module["tests"]]:
        assert (repo / path).exists(), path


def test_twister_finds_the_west_that_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = tmp_path / "venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "west").touch()
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    found = project_env({"PATH": "/bin", "ZEPHYR_BASE": "/z"})
    assert found["PATH"].split(os.pathsep) == [str(scripts), "/bin"]
    (scripts / "west").unlink()
    assert project_env({"PATH": "/bin", "ZEPHYR_BASE": "/z"})["PATH"] == "/bin"
