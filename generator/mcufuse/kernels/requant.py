# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the shortest instruction sequence that requantizes a layer's accumulators exactly.

An accumulator `a` becomes y(a) = clamp(requantize(a) + out_zero), which never falls as `a` grows. So y is known from
its thresholds T_k = min{a : y(a) >= k}, at most 255 of them. A single multiply-add

    f(a) = clamp((a * M + C) >> S)

equals y on a range of accumulators if and only if, for every k, f(T_k) >= k and f(T_k - 1) < k, that is

    k * 2^S - T_k * M  <=  C  <  k * 2^S - (T_k - 1) * M        (1)

The range comes from the weights, so (1) is a proof for every input, whatever the rounding mode says about halves.
One S serves all channels of a layer, so that it is an immediate of the shift instruction; M and C are per channel.
Modes, in the order of preference (`mcufuse/requant.h` has the same list):

    HIGH    one (M, C) per channel, with C = B * M + R * 2^32: B is added to the bias, so that only the high word of a
            product is needed. R (10 bits) and M are varied until a multiple of M falls into the interval for C.
    AFFINE  one (M, C) per channel, C of 64 bits.
    SPLIT   C depends on the sign of the accumulator, since TFLite's second rounding goes away from zero:
            C = (2 out_zero + 1) * 2^(S-1) +- h with h = 2^(S-1-r), where r is the second rounding's shift.
    EXACT   the rounding mode's own arithmetic (ties of power-of-two scales).

    HIGH_WIDE is HIGH with R in a word of its own: four bytes a channel more, one instruction an output less.

A layer with one scale for all channels may share M and h (`Mode.uniform`): its entries then are one word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..arith import requantize
from ..ir import Clamp, Requant, Rounding
from .base import CArray, CValue, Refusal

__all__ = ["Mode", "RequantPlan", "plan_requant", "thresholds"]

I64 = npt.NDArray[np.int64]
Entries = npt.NDArray[np.int32]

SHIFTS = (2, 1, 4, 0, 6, 8, 10, 12, 14, 16, 18, 20)
"""S - 32 in the order in which they are tried: few distinct values let layers of one shape share their code."""


class Mode(IntEnum):
    """How the C code requantizes; the values are those of `enum mf_requant_mode`."""

    HIGH = 0
    AFFINE = 1
    SPLIT = 2
    TFLITE = 3
    TFLITE_SINGLE = 4
    ONNX = 5
    HIGH_WIDE = 6
    TFLITE_RIGHT = 7


UNIFORM = 8
"""Added to the mode where all channels share the multiplier: `MF_REQUANT_UNIFORM`."""

_EXACT = {Rounding.TFLITE: Mode.TFLITE, Rounding.TFLITE_SINGLE: Mode.TFLITE_SINGLE, Rounding.ONNX: Mode.ONNX}


HIGH_SHIFTS = (0, 1, 2, 4)
"""The shifts that are tried for mode HIGH."""

R_BITS = 10
"""Bits of R in mode HIGH: it shares a word with the bias."""


@dataclass(frozen=True, slots=True)
class RequantPlan:
    """The choice for a layer; the table is what `mcufuse/requant.h` reads.

    `entries` is [channels, words]; with `common` (multiplier and third word of all channels) one word for each.
    """

    mode: Mode
    shift: int  # S - 32; 0 for the exact modes
    out_zero: int
    clamp: Clamp
    entries: Entries
    common: tuple[int, int] | None = None

    def cfg_fields(self) -> tuple[tuple[str, CValue], ...]:
        """The fields that every cfg struct with a requantization has."""
        return (
            ("rq_mode", int(self.mode) + (UNIFORM if self.common else 0)),
            ("rq_shift", self.shift),
            ("rq_lo", self.clamp.lo),
            ("rq_hi", self.clamp.hi),
        )

    def array(self) -> CArray:
        """The table as a constant of the generated C."""
        words = self.entries.reshape(-1)
        if self.common:
            words = np.concatenate([np.array(self.common, np.int32), words])
        return CArray("int32_t", words, "requant")

    def expanded(self) -> RequantPlan:
        """The same without words that channels share."""
        if not self.common:
            return self
        count = 1 if self.mode is Mode.HIGH else 2
        common = np.broadcast_to(np.array(self.common[:count], np.int32), (self.entries.shape[0], count))
        return replace(self, entries=np.concatenate([self.entries, common], axis=1), common=None)

    def variants(self) -> list[RequantPlan]:
        """The plan and, where it is another one, `widened()`: a larger table, an instruction an output less."""
        wide = self.widened()
        return [self] if wide.mode is self.mode else [self, wide]

    def widened(self) -> RequantPlan:
        """The same with HIGH_WIDE instead of HIGH, entries (bias + B, M, R)."""
        if self.mode is not Mode.HIGH or self.common:
            return self
        first, m = self.entries[:, 0], self.entries[:, 1]
        low = (first & ((1 << R_BITS) - 1)).astype(np.int32)
        r = np.where(low >= 1 << (R_BITS - 1), low - (1 << R_BITS), low)
        return replace(self, mode=Mode.HIGH_WIDE, entries=np.stack([first >> R_BITS, m, r], axis=1).astype(np.int32))

    @property
    def instructions(self) -> int:
        """Estimated instructions for one output value (Armv7-M), the store included."""
        clamp = 0 if (self.clamp.lo, self.clamp.hi) == (-128, 127) else 4
        return {Mode.HIGH: 5, Mode.HIGH_WIDE: 4, Mode.AFFINE: 6, Mode.SPLIT: 7}.get(self.mode, 22) + clamp


def _evaluate(acc: I64, requant: Requant, out_zero: int) -> I64:
    """y(acc) without clamp; acc is [n, channels]."""
    return np.asarray(requantize(acc, requant) + out_zero, np.int64)


def thresholds(requant: Requant, out_zero: int, clamp: Clamp, lo: I64, hi: I64) -> I64:
    """T[k, channel] = the least a in [lo, hi + 1] with y(a) >= clamp.lo + 1 + k; hi + 1 where there is none.

    Bisects a small window around the real crossing, or the whole range where the crossing is not in the window.
    """
    levels = np.arange(clamp.lo + 1, clamp.hi + 1, dtype=np.int64)[:, None]
    scale = np.asarray(requant.multiplier, np.float64) * np.exp2(np.asarray(requant.shift, np.float64) - 31)
    with np.errstate(divide="ignore"):
        crossing = np.where(scale > 0, (levels - out_zero - 0.5) / np.where(scale > 0, scale, 1.0), 0.0)
    crossing = np.clip(crossing, lo.astype(np.float64) - 8, hi.astype(np.float64) + 8)
    centre = np.floor(crossing).astype(np.int64)
    # TFLite's first rounding moves a crossing by at most two steps of the accumulator, plus one for the sign
    below, above = np.maximum(centre - 4, lo - 1), np.minimum(centre + 4, hi + 1)
    below = np.where(_evaluate(below, requant, out_zero) < levels, below, lo - 1)
    above = np.where(_evaluate(above, requant, out_zero) >= levels, above, hi + 1)
    while bool((above - below > 1).any()):
        middle = (below + above) >> 1
        reached = _evaluate(middle, requant, out_zero) >= levels
        above = np.where(reached, middle, above)
        below = np.where(reached, below, middle)
    return np.asarray(np.clip(above, lo, hi + 1), np.int64)


def _offsets(t: I64, levels: I64, multiplier: I64, s: int, lo: I64, hi: I64) -> tuple[I64, I64]:
    """The bounds of C in (1) for accumulators in [lo, hi] (per channel); an empty range bounds nothing."""
    far = 1 << 62
    t = np.clip(t, lo, hi + 1)
    base = levels << s
    least = np.where(t <= hi, base - t * multiplier, -far).max(axis=0, initial=-far)
    most = np.where(t > lo, base - (t - 1) * multiplier - 1, far).min(axis=0, initial=far)
    empty = lo > hi
    return np.where(empty, -far, least), np.where(empty, far, most)


def _middle(least: I64, most: I64) -> I64:
    """A value inside [least, most], small where the bounds are open."""
    return np.where(
        least <= -(1 << 61),
        np.minimum(most, 0),
        np.where(most >= (1 << 61), np.maximum(least, 0), least + ((most - least) >> 1)),
    )


def _scaled(requant: Requant, s: int) -> tuple[I64, npt.NDArray[np.bool_]]:
    """floor(real scale * 2^s) per channel, and whether that is below 2^31 - 8."""
    multiplier = np.asarray(requant.multiplier, np.int64)
    up = np.asarray(requant.shift, np.int64) + s - 31
    fits = (up <= 0) | ((multiplier >> np.maximum(31 - up, 0)) == 0)
    up = np.where(fits, up, 0)
    scaled = np.where(up >= 0, multiplier << np.clip(up, 0, 31), multiplier >> np.clip(-up, 0, 62))
    return scaled, fits & (scaled < (1 << 31) - 8)


def _near(start: I64, tries: int) -> list[I64]:
    """Multipliers around the scaled one, nearest first, none negative."""
    steps = [0, *(sign * k for k in range(1, tries) for sign in (1, -1))]
    return [np.maximum(start + step, 0) for step in steps]


def _is_constant(t: I64, lo: I64, hi: I64) -> npt.NDArray[np.bool_]:
    """Channels whose output is the same for every accumulator."""
    return np.asarray(((t <= lo) | (t > hi)).all(axis=0))


def _start(requant: Requant, t: I64, lo: I64, hi: I64, s: int) -> I64 | None:
    """The multipliers to begin with, 0 for constant channels; None if one is too large for the shift."""
    start, fits = _scaled(requant, s)
    constant = _is_constant(t, lo, hi)
    return np.where(constant, 0, start) if bool((fits | constant).all()) else None


@dataclass(frozen=True, slots=True)
class _Layer:
    """What is known of a layer: thresholds [level, channel] and the ranges of the accumulators, bias included."""

    requant: Requant
    t: I64
    levels: I64
    bias: I64
    lo: I64
    hi: I64
    out_zero: int

    def only(self, channels: I64) -> _Layer:
        """Some of the channels."""
        requant = Requant(
            tuple(self.requant.multiplier[c] for c in channels),
            tuple(self.requant.shift[c] for c in channels),
            self.requant.rounding,
        )
        pick = (self.bias[channels], self.lo[channels], self.hi[channels])
        return _Layer(requant, self.t[:, channels], self.levels, *pick, self.out_zero)


def _fit_affine(layer: _Layer, s: int) -> Entries | None:
    """Entries (M, C lo, C hi), or None if a channel has none."""
    start = _start(layer.requant, layer.t, layer.lo, layer.hi, s)
    if start is None:
        return None
    m, c, found = np.zeros_like(start), np.zeros_like(start), np.zeros(start.shape, bool)
    for tried in _near(start, 4):
        least, most = _offsets(layer.t, layer.levels, tried, s, layer.lo, layer.hi)
        good = ~found & (least <= most)
        m, c = np.where(good, tried, m), np.where(good, _middle(least, most), c)
        found |= good
        if found.all():
            return np.stack([m.astype(np.int32), *_words(c + layer.bias * m)], axis=1)
    return None


def _fit_high(layer: _Layer, s: int) -> Entries | None:
    """Entries (B + bias above R_BITS bits of R, M), or None if a channel has none."""
    start = _start(layer.requant, layer.t, layer.lo, layer.hi, s)
    if start is None:
        return None
    b, r, m = np.zeros_like(start), np.zeros_like(start), np.zeros_like(start)
    r_all = np.arange(-(1 << (R_BITS - 1)), 1 << (R_BITS - 1), dtype=np.int64)[:, None]
    todo = np.arange(start.size)
    part = layer
    for all_tried in _near(start, 4):
        tried = all_tried[todo]
        least, most = _offsets(part.t, part.levels, tried, s, part.lo, part.hi)
        # the least multiple of M in or above the interval
        bs = np.where(tried > 0, -((r_all * (1 << 32) - least) // np.maximum(tried, 1)), -part.bias)
        sums = bs * tried + (r_all << 32)
        good = (sums >= least) & (sums <= most) & (np.abs(bs + part.bias) < 1 << (31 - R_BITS))
        best = np.argmin(np.where(good, np.abs(bs), 1 << 62), axis=0)
        each = np.arange(todo.size)
        b[todo], r[todo], m[todo] = bs[best, each], r_all[best, 0], tried
        missing = ~good[best, each]
        if not missing.any():
            first = ((b + layer.bias) << R_BITS) + (r & ((1 << R_BITS) - 1))
            return np.stack([first.astype(np.int32), m.astype(np.int32)], axis=1)
        todo = todo[missing]
        part = layer.only(todo)
    return None


def _fit_split(layer: _Layer, s: int) -> Entries | None:
    """Entries (bias, M, h), or None if a channel has none."""
    start = _start(layer.requant, layer.t, layer.lo, layer.hi, s)
    right = np.maximum(-np.asarray(layer.requant.shift, np.int64), 0)
    if start is None or s < 33 or layer.requant.rounding is not Rounding.TFLITE:
        return None
    h = np.where(right > 0, np.int64(1) << np.clip(s - 1 - right, 0, 62), 0)
    if int(h.max()) >= 1 << 31 or int(right.max()) > s - 1:
        return None
    centre = (2 * layer.out_zero + 1) << (s - 1)
    m, found = np.zeros_like(start), np.zeros(start.shape, bool)
    for tried in _near(start, 4):
        above = _offsets(layer.t, layer.levels, tried, s, np.maximum(layer.lo, 0), layer.hi)
        below = _offsets(layer.t, layer.levels, tried, s, layer.lo, np.minimum(layer.hi, -1))
        good = (above[0] <= centre + h) & (centre + h <= above[1])
        good &= (below[0] <= centre - h - 1) & (centre - h - 1 <= below[1])
        m = np.where(good & ~found, tried, m)
        found |= good
        if found.all():
            return np.stack([column.astype(np.int32) for column in (layer.bias, m, h)], axis=1)
    return None


def _words(value: I64) -> list[npt.NDArray[np.int32]]:
    """Low and high words of 64-bit values."""
    low = (value & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return [low, (value >> 32).astype(np.int32)]


def _choose(layer: _Layer) -> tuple[Mode, int, Entries]:
    """(mode, shift, entries): the first mode that fits, with the first shift that does."""
    searches: list[tuple[Mode, Callable[[_Layer, int], Entries | None], tuple[int, ...]]] = [
        (Mode.HIGH, _fit_high, HIGH_SHIFTS),
        (Mode.AFFINE, _fit_affine, SHIFTS),
        (Mode.SPLIT, _fit_split, SHIFTS),
    ]
    if all(_fit_affine(layer, 32 + shift) is None for shift in SHIFTS[:3]):
        searches.reverse()  # the sign matters: look for a split first
    for mode, search, shifts in searches:
        for shift in shifts:
            entries = search(layer, 32 + shift)
            if entries is not None:
                return mode, shift, entries
    columns = (layer.bias, np.asarray(layer.requant.multiplier), np.asarray(layer.requant.shift))
    return _EXACT[layer.requant.rounding], 0, np.stack([np.asarray(c, np.int64).astype(np.int32) for c in columns], 1)


def _uniform(layer: _Layer, clamp: Clamp) -> RequantPlan | None:
    """A plan with one multiplier for all channels, if they have one scale; None if that does not fit."""
    if len(set(layer.requant.multiplier)) > 1 or len(set(layer.requant.shift)) > 1 or layer.bias.size < 3:
        return None
    one = Requant(layer.requant.multiplier[:1], layer.requant.shift[:1], layer.requant.rounding)
    lo, hi = layer.lo.min(keepdims=True), layer.hi.max(keepdims=True)
    t = thresholds(one, layer.out_zero, clamp, lo, hi)
    mode, shift, entries = _choose(_Layer(one, t, layer.levels, np.zeros(1, np.int64), lo, hi, layer.out_zero))
    if mode is Mode.AFFINE:
        return None
    first = layer.bias
    if mode is Mode.HIGH:
        first = (layer.bias << R_BITS) + int(entries[0, 0])
        if int(np.abs(first).max()) >= 1 << 31:
            return None
    common = (int(entries[0, 1]), 0 if mode is Mode.HIGH else int(entries[0, 2]))
    return RequantPlan(mode, shift, layer.out_zero, clamp, first.astype(np.int32)[:, None], common)


def plan_requant(
    requant: Requant, *, bias: I64, raw_lo: I64, raw_hi: I64, out_zero: int, clamp: Clamp, uniform: bool = False
) -> RequantPlan | Refusal:
    """How to requantize accumulators `raw + bias`, with raw in [raw_lo, raw_hi] (all [channels], int64).

    Entries of the table: HIGH (bias + B above R_BITS bits of R, M). AFFINE (M, C lo, C hi), with
    the bias in C: the accumulation starts at 0. SPLIT (bias, M, h). Exact modes (bias, multiplier, shift). `uniform`
    allows tables whose entries are the first word only, after the two others.
    """
    channels = bias.shape[0]
    full = Requant(
        tuple(np.broadcast_to(requant.multiplier, channels).tolist()),
        tuple(np.broadcast_to(requant.shift, channels).tolist()),
        requant.rounding,
    )
    lo, hi = raw_lo + bias, raw_hi + bias
    limit = 1 << 31
    if int(lo.min()) < -limit or int(hi.max()) >= limit:
        return Refusal("requant", f"an accumulator may leave 32 bits: its range is {int(lo.min())}..{int(hi.max())}")
    levels = np.arange(clamp.lo + 1, clamp.hi + 1, dtype=np.int64)[:, None]
    layer = _Layer(full, thresholds(full, out_zero, clamp, lo, hi), levels, bias, lo, hi, out_zero)
    plan = _uniform(layer, clamp) if uniform else None
    if plan is None:
        mode, shift, entries = _choose(layer)
        plan = RequantPlan(mode, shift, out_zero, clamp, entries)
    return plan
