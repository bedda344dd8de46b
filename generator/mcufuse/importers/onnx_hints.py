# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The way out of what cannot be imported, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

__all__ = ["FLOAT_NETWORK", "hint_for"]

FLOAT_NETWORK = (
    "quantize it with onnxruntime.quantization.quantize_static(IN, OUT, calibration_data_reader, "
    "quant_format=QuantFormat.QDQ, per_channel=True); docs/quantizing.md shows the whole script"
)
_STATIC = f"it belongs to dynamic quantization, which computes scales at run time: {FLOAT_NETWORK}"
_RECURRENT = "recurrent cells are not supported; convolutions over time or a streaming TFLite model are"
_CONTROL = "control flow is not supported; `python -m onnxsim IN OUT` removes it where its condition is constant"
_BATCH_NORM = "replace it by BatchNormalization, which is folded into the convolution before it"
_ATTENTION = "it combines two activations, which is not supported"
_CALLER = "leave it to the caller: it works on the network's few output values"

_HINTS: Mapping[str, str] = {
    "DynamicQuantizeLinear": _STATIC,
    "ConvInteger": _STATIC,
    "MatMulInteger": _STATIC,
    "com.microsoft.DynamicQuantizeMatMul": _STATIC,
    "com.microsoft.MatMulIntegerToFloat": _STATIC,
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "RNN": _RECURRENT,
    "If": _CONTROL,
    "Loop": _CONTROL,
    "Scan": _CONTROL,
    "InstanceNormalization": _BATCH_NORM,
    "LayerNormalization": _BATCH_NORM,
    "GroupNormalization": _BATCH_NORM,
    "com.microsoft.Attention": _ATTENTION,
    "com.microsoft.QAttention": _ATTENTION,
    "ArgMax": _CALLER,
    "ArgMin": _CALLER,
    "TopK": _CALLER,
    "NonMaxSuppression": _CALLER,
    "LogSoftmax": f"use Softmax; {_CALLER}",
    "ConvTranspose": "replace it by Resize (mode=nearest) and Conv",
    "Upsample": "export with operator set 13, which has Resize (mode=nearest) instead",
}


def hint_for(op: str) -> str:
    """What to do about an operator that is not supported."""
    if op in _HINTS:
        return _HINTS[op]
    from .onnx import HANDLERS

    near = difflib.get_close_matches(op, HANDLERS, n=1, cutoff=0.85)
    if near:
        return f"did you mean {near[0]}? docs/operators-onnx.md lists what is supported"
    return "docs/operators-onnx.md lists what is supported; replace the operator, or leave it to the caller"
