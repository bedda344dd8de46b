# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The gate for speed: exact instruction counts must not exceed the stored ones by more than 1%."""

from __future__ import annotations

import pytest

from instruction_counts import ALLOWED, CORES, NETWORKS, count_instructions, load_baselines


@pytest.mark.qemu
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("network", NETWORKS)
def test_no_more_instructions_than_stored(network: str, core: str) -> None:
    stored = load_baselines()[core][network]
    count, toolchain = count_instructions(network, core)
    assert count <= ALLOWED * stored, (
        f"{network} on {core} takes {count:,} instructions ({toolchain}), {count / stored - 1:+.1%} to the stored "
        f"{stored:,}; if that is meant: tests/instruction_counts.py --update-baselines"
    )


@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m33"])
def test_cores_with_the_same_instructions_take_as_many(core: str) -> None:
    stored = load_baselines()
    for network in NETWORKS:
        assert stored[core][network] == pytest.approx(stored["cortex-m4"][network], rel=0.05)


def test_baselines_are_complete() -> None:
    stored = load_baselines()
    assert {core: set(counts) for core, counts in stored.items()} == {core: set(NETWORKS) for core in CORES}
    assert all(count > 0 for counts in stored.values() for count in counts.values())
