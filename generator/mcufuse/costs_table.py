# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How the kernels' own estimates of instructions are corrected. Written by scripts/calibrate.py; do not edit.

(`Core.counts_as`, row function) -> factors of the terms of `costs.terms`, whose sum is the instructions of a step.
"""

from __future__ import annotations

__all__ = ["CORRECTIONS"]

CORRECTIONS: dict[tuple[str, str], tuple[float, ...]] = {
    ("base", "mf_add_row_s8"): (0.969, 0.000, 0.000, 0.000, 0.000),
    ("base", "mf_conv2d_row_s8"): (0.966, 0.000, 0.443, 4.939, 0.000),
    ("base", "mf_conv2d_sized_row_s8"): (1.006, 0.000, 0.662, 5.498, 0.000),
    ("base", "mf_depthwise_conv2d_row_s8"): (0.846, 0.472, 0.000, 0.000, 0.000),
    ("base", "mf_depthwise_conv2d_sized_row_s8"): (0.987, 0.000, 0.904, 0.000, 0.000),
    ("base", "mf_fully_connected_row_s8"): (0.993, 0.000, 0.000, 0.000, 36.598),
    ("base", "mf_softmax_row_s8"): (0.783, 0.000, 0.000, 9.480, 0.000),
    ("dsp", "mf_add_row_s8"): (0.938, 0.000, 0.000, 0.000, 0.000),
    ("dsp", "mf_conv2d_row_s8_dsp"): (0.975, 0.000, 0.184, 1.809, 0.000),
    ("dsp", "mf_conv2d_sized_row_s8_dsp"): (0.921, 0.000, 0.386, 4.781, 0.000),
    ("dsp", "mf_depthwise_conv2d_row_s8"): (0.794, 0.000, 1.241, 0.000, 0.000),
    ("dsp", "mf_depthwise_conv2d_row_s8_dsp"): (0.396, 1.393, 0.000, 0.000, 0.000),
    ("dsp", "mf_depthwise_conv2d_sized_row_s8"): (0.000, 5.673, 0.000, 0.000, 0.000),
    ("dsp", "mf_fully_connected_row_s8_dsp"): (1.079, 0.000, 0.000, 0.000, 51.962),
    ("dsp", "mf_softmax_row_s8"): (0.782, 0.000, 0.000, 9.981, 0.000),
    ("mve", "mf_add_row_s8"): (1.273, 0.000, 0.000, 0.000, 0.000),
    ("mve", "mf_depthwise_columns_row_s8_mve"): (1.147, 0.000, 0.000, 0.000, 0.000),
    ("mve", "mf_depthwise_conv2d_row_s8_mve"): (1.168, 0.000, 0.000, 0.757, 0.000),
    ("mve", "mf_softmax_row_s8"): (0.837, 0.000, 0.000, 0.000, 0.000),
}
