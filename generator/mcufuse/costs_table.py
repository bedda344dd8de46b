# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How the kernels' own estimates of instructions are corrected. Written by scripts/calibrate.py; do not edit.

(`Core.counts_as`, row function) -> factors of the terms of `costs.terms`, whose sum is the instructions of a step.
"""

from __future__ import annotations

__all__ = ["CORRECTIONS"]

CORRECTIONS: dict[tuple[str, str], tuple[float, ...]] = {
    ("armv6", "mf_add_row_s8"): (2.446, 0.000, 0.000, 0.000, 0.000),
    ("armv6", "mf_conv2d_row_s8"): (2.547, 0.000, 0.000, 22.240, 0.000),
    ("armv6", "mf_conv2d_sized_row_s8"): (1.838, 1.574, 0.000, 37.253, 0.000),
    ("armv6", "mf_depthwise_conv2d_row_s8"): (1.001, 2.954, 0.000, 38.558, 0.000),
    ("armv6", "mf_depthwise_conv2d_sized_row_s8"): (2.526, 0.000, 0.000, 0.000, 0.000),
    ("armv6", "mf_fully_connected_row_s8"): (2.271, 0.000, 0.000, 19.473, 39.252),
    ("armv6", "mf_mean_row_s8"): (2.266, 0.000, 0.000, 0.000, 0.000),
    ("armv6", "mf_softmax_row_s8"): (2.548, 0.000, 0.000, 0.000, 0.000),
    ("base", "mf_add_row_s8"): (0.969, 0.000, 0.000, 0.000, 0.000),
    ("base", "mf_conv2d_row_s8"): (0.999, 0.000, 0.446, 0.000, 0.000),
    ("base", "mf_conv2d_sized_row_s8"): (0.976, 0.000, 1.196, 4.338, 0.000),
    ("base", "mf_depthwise_conv2d_row_s8"): (0.844, 0.471, 0.000, 0.000, 0.000),
    ("base", "mf_depthwise_conv2d_sized_row_s8"): (0.989, 0.000, 0.998, 0.000, 0.000),
    ("base", "mf_fully_connected_row_s8"): (0.993, 0.000, 0.000, 0.000, 36.598),
    ("base", "mf_mean_row_s8"): (1.000, 0.000, 0.000, 0.000, 0.000),
    ("base", "mf_softmax_row_s8"): (0.783, 0.000, 0.000, 9.480, 0.000),
    ("dsp", "mf_add_row_s8"): (0.938, 0.000, 0.000, 0.000, 0.000),
    ("dsp", "mf_conv2d_odd_row_s8_dsp"): (0.994, 0.000, 0.000, 0.000, 0.000),
    ("dsp", "mf_conv2d_row_s8_dsp"): (0.976, 0.000, 0.188, 1.725, 0.000),
    ("dsp", "mf_conv2d_sized_row_s8_dsp"): (0.939, 0.000, 0.400, 1.548, 123.344),
    ("dsp", "mf_depthwise_1d_row_s8_dsp"): (0.979, 0.000, 0.000, 5.606, 0.000),
    ("dsp", "mf_depthwise_conv2d_row_s8_dsp"): (0.686, 0.865, 0.000, 0.000, 0.000),
    ("dsp", "mf_depthwise_conv2d_sized_row_s8_dsp"): (0.661, 1.511, 2.558, 0.000, 0.000),
    ("dsp", "mf_fully_connected_row_s8_dsp"): (1.026, 0.000, 0.000, 0.000, 0.000),
    ("dsp", "mf_mean_row_s8"): (0.996, 0.000, 0.000, 0.000, 0.000),
    ("dsp", "mf_softmax_row_s8"): (0.782, 0.000, 0.000, 9.981, 0.000),
    ("mve", "mf_add_row_s8"): (1.273, 0.000, 0.000, 0.000, 0.000),
    ("mve", "mf_conv2d_row_s8_mve"): (0.944, 0.010, 0.000, 0.227, 0.000),
    ("mve", "mf_depthwise_columns_row_s8_mve"): (1.021, 0.000, 0.000, 0.000, 0.000),
    ("mve", "mf_depthwise_conv2d_row_s8_mve"): (1.186, 0.000, 0.000, 0.583, 0.000),
    ("mve", "mf_fully_connected_row_s8_mve"): (0.948, 0.000, 0.015, 0.000, 0.000),
    ("mve", "mf_mean_row_s8"): (1.000, 0.000, 0.000, 0.000, 0.000),
    ("mve", "mf_softmax_row_s8"): (0.837, 0.000, 0.000, 0.000, 0.000),
}
