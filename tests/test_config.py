# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reading configurations: what is accepted, and what every refusal says."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from mcufuse.commands.schema_doc import reference
from mcufuse.config import Config, InputMode, Optimize, RoundingMode, load_config, parse_config
from mcufuse.errors import UserError
from mcufuse.schema import KEYS
from mcufuse.target import core_by_name
from mcufuse.units import format_bytes, parse_bytes
from mcufuse.yaml_marks import MAX_BYTES, MAX_DEPTH, MAX_NODES

FULL = """\
model: kws_int8.tflite
name: wake
target: {core: cortex-m4}
budget:
  ram: 16 KiB
  flash: "64,000 B"
optimize: ram
rounding: tflite-single
input: {mode: rows}
placement: {arena: "&sram1", weights: .rodata}
verify: {vectors: io.npz, count: 3}
plan: {strips: 2}
arena_group: audio
"""


def parse(text: str, name: str = "kws.yaml") -> Config:
    return parse_config(text, Path(name))


def refusal(text: str, name: str = "kws.yaml") -> str:
    with pytest.raises(UserError) as caught:
        parse(text, name)
    return str(caught.value)


def test_smallest_file(workspace: Path) -> None:
    config = parse("model: kws_int8.tflite\n")
    assert config.model == workspace / "kws_int8.tflite"
    assert config.name == "kws"
    assert config.core().name == "cortex-m3"
    assert (config.optimize, config.rounding, config.input.mode) == (
        Optimize.BALANCED, RoundingMode.AUTO, InputMode.RESIDENT,
    )  # fmt: skip
    assert config.budget.ram is None
    assert config.budget.flash is None
    assert (config.placement.arena, config.placement.weights) == (".bss", ".rodata")
    assert (config.verify.vectors, config.verify.count) == (None, 8)
    assert config.plan.strips is None
    assert config.arena_group is None


def test_every_key(workspace: Path) -> None:
    (workspace / "io.npz").write_bytes(b"")
    config = parse(FULL)
    assert config.name == "wake"
    assert config.target.core == core_by_name("m4")
    assert (config.budget.ram, config.budget.flash) == (16384, 64000)
    assert (config.optimize, config.rounding) == (Optimize.RAM, RoundingMode.TFLITE_SINGLE)
    assert config.input.mode is InputMode.ROWS
    assert config.placement.arena == "&sram1"
    assert (config.verify.vectors, config.verify.count) == (workspace / "io.npz", 3)
    assert config.plan.strips == 2
    assert config.arena_group == "audio"
    assert config.core("m33").name == "cortex-m33"


def test_places(workspace: Path) -> None:
    (workspace / "io.npz").write_bytes(b"")
    config = parse(FULL)
    assert config.place("budget.ram") == "kws.yaml:5: budget.ram"
    assert parse("model: kws_int8.tflite").place("budget.ram") == "kws.yaml: budget.ram"


def test_model_relative_to_the_file(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    path = workspace / "sub" / "a.yaml"
    path.write_text("model: ../kws_int8.tflite\n", encoding="utf-8")
    assert load_config(path).model.name == "kws_int8.tflite"


def test_bare_model(workspace: Path) -> None:
    config = load_config(Path("kws_int8.tflite"))
    assert (config.name, config.model) == ("kws_int8", workspace / "kws_int8.tflite")
    assert config.renamed("kws").name == "kws"
    with pytest.raises(UserError, match="keyword"):
        config.renamed("while")
    with pytest.raises(UserError, match=r"no\.onnx: no such file"):
        load_config(Path("no.onnx"))


@pytest.mark.parametrize(
    ("stem", "name"), [("my-net.v2", "my_net_v2"), ("1net", "_1net"), ("größe", "gr__e"), ("a b", "a_b")]
)
def test_name_from_stem(workspace: Path, stem: str, name: str) -> None:
    assert parse("model: kws_int8.tflite", f"{stem}.yaml").name == name


@pytest.mark.parametrize("stem", ["int", "string", "main", "x" * 60])
def test_stem_that_cannot_be_the_name(workspace: Path, stem: str) -> None:
    assert f'name: "{stem}" (from the file name)' in refusal("model: kws_int8.tflite", f"{stem}.yaml")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16 KiB", 16384), ("64KB", 65536), ("64k", 65536), ("12,000 B", 12000), ("12_000", 12000), ("4096", 4096),
        ("0x4000", 16384), ("1.5 KiB", 1536), ("2 MiB", 2 << 20), ("1 byte", 1), (" 7 ", 7),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "", "KiB", "-1", "1,2", "12,00 B", "010", "1.1 B", "1 GiB 2", "16 kilo", "5 GiB", "9999999 MiB", "0x1.8 K",
        "1e9", "٣", "1" * 70, "nan", "1 TiB",
    ],
)  # fmt: skip
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_bytes(text)


def test_format_bytes() -> None:
    assert [format_bytes(n) for n in (640, 12288, 3 << 20)] == [
        "640 B",
        "12,288 B (12.0 KiB)",
        "3,145,728 B (3.00 MiB)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "kws.yaml: is empty"),
        ("# nothing\n", "kws.yaml: is empty"),
        ("kws_int8.tflite", "kws.yaml:1:1: holds no keys"),
        ("- model: x.tflite", "kws.yaml:1:1: holds no keys"),
        ("name: kws\n", "kws.yaml:1:1: model: missing"),
        ("model:\n", "kws.yaml:1:7: model: has no value"),
        ("model: no.tflite", 'kws.yaml:1:8: model: "no.tflite": no such file'),
        ("model: .", 'kws.yaml:1:8: model: ".": a model is a .tflite or .onnx file'),
        ("model: kws.pb", 'kws.yaml:1:8: model: "kws.pb": a model is a .tflite or .onnx file'),
        ("model: dir.onnx", 'kws.yaml:1:8: model: "dir.onnx": not a file'),
        ("model: [a, b]", "kws.yaml:1:8: model: expected one value, not a list"),
        ("model: {a: b}", "kws.yaml:1:8: model: expected one value, not keys"),
        ('model: "a\\0b.onnx"', "model: \"a\\x00b.onnx\": not a file name"),
        (f"model: {'x' * 300}.onnx", "not a file name"),
        ("m: 1\nmodel: kws_int8.tflite", 'kws.yaml:1:1: m: unknown key\n  hint: did you mean "'),
        ("modle: kws_int8.tflite", 'modle: unknown key\n  hint: did you mean "model"?'),
        ("budget: {rma: 1K}", 'kws.yaml:1:10: budget.rma: unknown key\n  hint: did you mean "ram"?'),
        ("core: m4", 'kws.yaml:1:1: core: unknown key\n  hint: did you mean "target.core"?'),
        ("verify: {core: m4}", 'verify.core: unknown key\n  hint: did you mean "target.core"?'),
        ("arena: x", 'did you mean "placement.arena"?'),
        ("<<: {a: b}", "kws.yaml:1:1: merge keys (<<) are not supported"),
        ("name: a\nname: b", "kws.yaml:2:1: name: given twice, first in line 1"),
        ("budget: {ram: 1K}\nbudget: {flash: 1K}", "kws.yaml:2:1: budget: given twice, first in line 1"),
        ("budget: {ram: 1K, ram: 2K}", "kws.yaml:1:19: budget.ram: given twice, first in line 1"),
        ("budget: 16K", 'kws.yaml:1:9: budget: "16K": expected keys, not a plain value'),
        ("budget: [1]", "kws.yaml:1:9: budget: a list: expected keys, not a plain value"),
        ("budget:\nname: x", "kws.yaml:1:8: budget: has no value"),
        ("budget: {ram: 12,000 B}", "a comma ends the value"),
        ("budget: {ram: 0}", 'budget.ram: "0": nothing fits into 0 bytes'),
        ("budget: {ram: lots}", 'kws.yaml:1:15: budget.ram: "lots": not a size'),
        ("target: {core: avr}", 'kws.yaml:1:16: target.core: "avr": unknown core\n  hint: known cores: cortex-m0plus'),
        ("optimize: Fast", 'optimize: "Fast": not one of the choices\n  hint: choose balanced | latency | ram | flash'),
        ("name: 1a", 'name: "1a": not a C identifier'),
        ("name: static", 'name: "static": a keyword'),
        ("name: stdint", "would hide C's <stdint.h>"),
        ("name: ünet", "not a C identifier"),
        ("placement: {arena: &isram}", "YAML takes &isram for an anchor\n  hint: write \"&isram\""),
        ("placement: {arena: *isram}", "kws.yaml:1:20: YAML: alias *isram has no anchor"),
        ("placement: {arena: a b}", "not a section, memory region or devicetree node"),
        ("verify: {vectors: io.txt}", "a set of test vectors is a .npz file"),
        ("verify: {count: 0}", 'verify.count: "0": out of range 1 to 10,000'),
        ("verify: {count: many}", 'verify.count: "many": not a whole number'),
        ("verify: {count: 010}", 'verify.count: "010": not a whole number'),
        ("plan: {stages: 3}", 'plan.stages: unknown key\n  hint: did you mean "strips"?'),
        ("? [a]\n: b", "kws.yaml:1:3: YAML: a key must be a plain word"),
        ("a: [1\nb: 2", "kws.yaml:2:2: YAML: "),
        ("model: 'x", "kws.yaml:1:10: YAML: found unexpected end of stream"),
        ("a:\n\tb: c", "kws.yaml:2:1: YAML: found character '\\t' that cannot start any token"),
        ("a: b\n---\nc: d", "kws.yaml:2:1: YAML: a second document begins here"),
        ("a: &x [*x]", "kws.yaml:1:8: YAML: alias *x contains itself"),
        ("a: !!python/object/apply:os.system [ls]", "kws.yaml:1:4: YAML: tag tag:yaml.org,2002:python/object/apply"),
        ("model: !t x", "kws.yaml:1:8: YAML: tag !t is not supported"),
        ("model: a\x07b", "kws.yaml:1:9: character U+0007 is not allowed in YAML"),
        ('a: "\\UFFFFFFFF"', "kws.yaml: YAML: "),
        ("[" * 100_0, f"kws.yaml:1:{MAX_DEPTH + 1}: YAML: nested deeper than {MAX_DEPTH} levels"),
        ("a: [" + "1," * MAX_NODES, f"more than {MAX_NODES:,} values"),
        ("#" * (MAX_BYTES + 1), f"has at most {MAX_BYTES:,}"),
    ],
)  # fmt: skip
def test_refusals(workspace: Path, text: str, message: str) -> None:
    (workspace / "dir.onnx").mkdir()
    assert message in refusal(text)


def test_all_problems_at_once(workspace: Path) -> None:
    with pytest.raises(UserError) as caught:
        parse("nmae: x\nbudget: {ram: 1x, flash: 2y}\noptimize: fast\nverify: {count: -1}\n")
    lines = [p.place for p in caught.value.problems]
    assert lines == [
        "kws.yaml:1:1: nmae", "kws.yaml:2:15: budget.ram", "kws.yaml:2:26: budget.flash", "kws.yaml:3:11: optimize",
        "kws.yaml:4:17: verify.count", "kws.yaml:1:1: model",
    ]  # fmt: skip


def test_alias_bomb_is_cheap(workspace: Path) -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    start = time.process_time()
    assert "unknown key" in refusal("\n".join(layers))
    assert time.process_time() - start < 2


def test_aliases_of_plain_values(workspace: Path) -> None:
    config = parse("model: kws_int8.tflite\nbudget: {ram: &size 64 KiB, flash: *size}")
    assert config.budget.ram == config.budget.flash == 65536


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\xff\xfem\x00", "kws.yaml:1: is not UTF-8 text"),
        (b"model: x\nname: \xe4", "kws.yaml:2: is not UTF-8 text"),
        (b"\x00" * 300_000, "has at most"),
    ],
)
def test_files_that_are_no_text(workspace: Path, raw: bytes, message: str) -> None:
    Path("kws.yaml").write_bytes(raw)
    with pytest.raises(UserError, match=message):
        load_config(Path("kws.yaml"))


def test_bom_and_crlf(workspace: Path) -> None:
    Path("kws.yaml").write_bytes(b"\xef\xbb\xbfmodel: kws_int8.tflite\r\nbudget: {ram: 1K}\r\n")
    config = load_config(Path("kws.yaml"))
    assert config.place("budget.ram") == "kws.yaml:2: budget.ram"


def test_files_that_cannot_be_read(workspace: Path) -> None:
    for name, reason in (("none.yaml", "No such file"), (".", "directory")):
        with pytest.raises(UserError, match=reason):
            load_config(Path(name))


TOKENS = [
    ":", " ", "\n", "\t", "{", "}", "[", "]", ",", "-", "- ", "? ", "&a ", "*a", "!!int ", "! ", "|", ">", "'", '"',
    "#", "%", "@", "`", "~", "null", "true", "<<", "---", "...", "0x", "1e9", "-1", "99999999999999999999", "\\",
    "\x00", "\x85", "\ufeff", "é", "\U0001f600", "model", "name", "budget: ", "ram", "%YAML 9.9\n",
    '"\\x"', '"\\U00110000"',
]  # fmt: skip


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        length = rng.choice((0, 1, 1, 2, 5, 20))
        insert = rng.choice(TOKENS) * rng.choice((1, 1, 1, 2, 40)) if rng.random() < 0.7 else ""
        if rng.random() < 0.1:
            start = rng.randrange(len(text) + 1)
            insert = text[start : start + 30]
        text = text[:at] + insert + text[at + length :]
    return text


def test_mutated_files_end_in_a_config_or_a_user_error(workspace: Path) -> None:
    (workspace / "io.npz").write_bytes(b"")
    rng = random.Random(20260101)
    outcomes = {"config": 0, "error": 0}
    for _ in range(2500):
        text = mutate(rng.choice((FULL, "model: kws_int8.tflite\n")), rng)
        try:
            config = parse(text)
        except UserError as error:
            outcomes["error"] += 1
            assert all(p.place.startswith("kws.yaml") for p in error.problems), text
        else:
            outcomes["config"] += 1
            assert config.model.is_file()
    assert min(outcomes.values()) > 50, outcomes


def test_reference_is_current(repo: Path) -> None:
    committed = (repo / "docs" / "yaml-reference.md").read_text(encoding="utf-8")
    assert committed == reference(), "run: python -m mcufuse.commands.schema_doc docs/yaml-reference.md"


@pytest.mark.parametrize("key", [k for k in KEYS if k.path not in ("model", "verify.vectors")], ids=lambda k: k.path)
def test_examples_of_the_schema_are_accepted(workspace: Path, key) -> None:  # type: ignore[no-untyped-def]
    section, _, leaf = key.path.rpartition(".")
    line = f"{section}: {{{leaf}: {key.example}}}" if section else f"{leaf}: {key.example}"
    config = parse(f"model: kws_int8.tflite\n{line}\n")
    assert key.path in config.marks
