# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Windows that slide over an endless input: the bits of full windows, with the work of a hop."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graph_builder import GraphBuilder
from mcufuse.config import Input, InputMode
from mcufuse.errors import UserError
from mcufuse.ir import Graph
from mcufuse.pipeline import Compiled, compile_graph, compile_network
from mcufuse.plan.check import BrokenPlan, check_sliding
from mcufuse.plan.sliding import Hop, find_sliding
from mcufuse.target import core_by_name
from test_networks import HostNetwork, config_of

M3 = core_by_name("cortex-m3")


def valid_chain(seed: int = 0) -> Graph:
    """Convolutions without padding, a stride, a residual of one kind, then a mean over the window and a dense layer."""
    g = GraphBuilder(seed)
    x = g.conv(g.input(1, 21, 3, 2), 4, (3, 3), same=False)
    x = g.conv(g.depthwise(x, (3, 1), 2, same=False), 5)
    x = g.add(g.conv(x, 5), g.table(x))
    return g.build(g.dense(g.mean(g.conv(x, 6, (2, 1), same=False)), 3))


def padded_tail() -> Graph:
    """The shared part ends where a convolution pads: that one runs anew on the window."""
    g = GraphBuilder(9)
    x = g.conv(g.input(1, 16, 2, 3), 4, (3, 1), same=False)
    return g.build(g.dense(g.conv(x, 3, (3, 3)), 4))


def one_row() -> Graph:
    """A last convolution as tall as its map, as in a streaming keyword spotter."""
    g = GraphBuilder(3)
    x = g.conv(g.depthwise(g.input(1, 12, 1, 4), (3, 1), same=False), 8)
    return g.build(g.softmax(g.dense(g.depthwise(x, (10, 1), same=False), 3)))


def assert_slides(network: Compiled, name: str, hop: int, directory: Path, windows: int = 9) -> None:
    """Feeds one long input; every window's outputs equal the oracle's on that window."""
    host = HostNetwork(network, name, directory, ("-O2",))
    height, width, channels = network.inputs[0].hwc
    rng = np.random.default_rng(hop)
    data = rng.integers(-128, 128, (height + (windows - 1) * hop, width * channels)).astype(np.int8)
    fed = 0
    for w in range(windows):
        while fed < height + w * hop:
            row = np.ascontiguousarray(data[fed])
            assert host.lib.mcufuse_run(host.model) != 0  # not yet
            assert host.lib.mcufuse_feed_rows(host.model, row.ctypes.data_as(ctypes.c_void_p), 1) == 0
            fed += 1
        assert host.lib.mcufuse_run(host.model) == 0
        window = data[w * hop : w * hop + height].reshape(network.inputs[0].shape)
        for i, want in enumerate(network.evaluate([window])):
            buffer = (ctypes.c_char * want.nbytes).from_address(host.lib.mcufuse_output(host.model, i))
            np.testing.assert_array_equal(
                np.frombuffer(bytes(buffer), want.dtype), want.reshape(-1), err_msg=f"window {w}"
            )


@pytest.mark.parametrize("hop", [2, 4, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_strided_chain(hop: int, seed: int, tmp_path: Path) -> None:
    assert_slides(
        compile_graph(valid_chain(seed), name="net", core=M3, fed_rows=True, hop=Hop(hop)), "net", hop, tmp_path
    )


@pytest.mark.parametrize("hop", [1, 3, 20])
def test_padded_tail(hop: int, tmp_path: Path) -> None:
    assert_slides(compile_graph(padded_tail(), name="net", core=M3, fed_rows=True, hop=Hop(hop)), "net", hop, tmp_path)


@pytest.mark.parametrize("hop", [1, 2, 5])
def test_one_row(hop: int, tmp_path: Path) -> None:
    assert_slides(compile_graph(one_row(), name="net", core=M3, fed_rows=True, hop=Hop(hop)), "net", hop, tmp_path)


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("hop", [1, 3])
def test_streaming_wake_word(hop: int, core: str, tmp_path: Path) -> None:
    config = replace(config_of("sww"), input=Input(InputMode.ROWS, hop))
    network = compile_network(config, core=core_by_name(core))
    assert_slides(network, "sww", hop, tmp_path, windows=40)
    assert all(step.lowered.rows.ticks > 1 for step in network.steps[:8])


def test_padding_at_the_top_is_refused_with_the_node() -> None:
    config = replace(config_of("kws"), input=Input(InputMode.ROWS, 1))
    with pytest.raises(UserError, match=r"(?s)input.hop.*CONV_2D.*pads rows.*hint"):
        compile_network(config, core=M3)


def test_a_resident_input_has_no_hop() -> None:
    config = replace(config_of("sww"), input=Input(InputMode.RESIDENT, 1))
    with pytest.raises(UserError, match="only an input that is fed by rows"):
        compile_network(config, core=M3)


def test_a_hop_that_no_stride_divides_is_refused() -> None:
    g = GraphBuilder(1)
    graph = g.build(g.conv(g.input(1, 9, 1, 2), 2, (3, 1), 2, same=False))
    with pytest.raises(UserError, match="which does not divide the hop of 3"):
        compile_graph(graph, name="net", core=M3, fed_rows=True, hop=Hop(3))


def test_the_checker_sees_a_ring_that_is_too_small() -> None:
    network = compile_graph(one_row(), name="net", core=M3, fed_rows=True, hop=Hop(1))
    from mcufuse.lowering import lower_graph
    from mcufuse.schedule import make_steps

    steps = make_steps(network.graph, *lower_graph(network.graph, M3), fed_rows=True)
    sliding = find_sliding(network.graph, steps, Hop(1))
    caught = 0
    for i, buffer in enumerate(network.plan.buffers):
        if buffer.role.value == "ring" and buffer.rows > 1:
            buffers = list(network.plan.buffers)
            buffers[i] = replace(buffer, rows=buffer.rows - 1, bytes=buffer.bytes - buffer.row_bytes)
            with pytest.raises(BrokenPlan):
                check_sliding(network.graph, steps, replace(network.plan, buffers=tuple(buffers)), sliding)
            caught += 1
    assert caught >= 2
