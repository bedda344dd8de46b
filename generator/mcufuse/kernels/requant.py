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
            product is needed. Many R are tried until a multiple of M falls into the interval (1) gives for C.
    AFFINE  one (M, C) per channel, C of 64 bits.
    SPLIT   C depends on the sign of the accumulator: TFLite's second rounding goes away from zero.
    EXACT   the rounding mode's own arithmetic (ties of power-of-two scales).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..arith import requantize
from ..ir import Clamp, Requant, Rounding
from .base import CArray, CValue, Refusal

__all__ = ["Mode", "RequantPlan", "plan_requant", "thresholds"]

I64 = npt.NDArray[np.int64]
Range = tuple[I64, I64]

SHIFTS = (2, 4, 1, 6, 0, 8, 10, 12, 14, 16, 18, 20)
"""S - 32 in the order in which they are tried: few distinct values let layers of one shape share their code."""


class Mode(IntEnum):
    """How the C code requantizes; the values are those of `enum mf_requant_mode`."""

    HIGH = 0
    AFFINE = 1
    SPLIT = 2
    TFLITE = 3
    TFLITE_SINGLE = 4
    ONNX = 5


_EXACT = {Rounding.TFLITE: Mode.TFLITE, Rounding.TFLITE_SINGLE: Mode.TFLITE_SINGLE, Rounding.ONNX: Mode.ONNX}


HIGH_TRIES = (64, 1024, 16384)
"""How many values of R are tried for the channels for which fewer did not do."""


@dataclass(frozen=True, slots=True)
class RequantPlan:
    """The choice for a layer. `table` is [channels, words of an entry] int32, see `struct mf_requant_cfg`."""

    mode: Mode
    shift: int  # S - 32; 0 for the exact modes
    out_zero: int
    clamp: Clamp
    table: npt.NDArray[np.int32]

    def cfg_fields(self) -> tuple[tuple[str, CValue], ...]:
        """The fields that every cfg struct with a requantization has."""
        return (
            ("rq_mode", int(self.mode)),
            ("rq_shift", self.shift),
            ("rq_lo", self.clamp.lo),
            ("rq_hi", self.clamp.hi),
        )

    def array(self) -> CArray:
        """The table as a constant of the generated C."""
        return CArray("int32_t", self.table.reshape(-1), "requant", align=8)

    @property
    def instructions(self) -> int:
        """Estimated instructions for one output value (Armv7-M), the store included."""
        clamp = 0 if (self.clamp.lo, self.clamp.hi) == (-128, 127) else 4
        return {Mode.HIGH: 4, Mode.AFFINE: 5, Mode.SPLIT: 7}.get(self.mode, 22) + clamp


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


def _fit(requant: Requant, t: I64, levels: I64, parts: list[Range], s: int) -> tuple[I64, list[Range]] | None:
    """(M, [bounds of C on each part]) that satisfy (1) on every part of the range (highest first), or None."""
    start, fits = _scaled(requant, s)
    least, most = parts[-1][0], parts[0][1]
    constant = ((t <= least) | (t > most)).all(axis=0)
    start, fits = np.where(constant, 0, start), fits | constant
    if not fits.all():
        return None
    channels = start.shape[0]
    found = np.zeros(channels, bool)
    best = np.zeros(channels, np.int64)
    chosen = [(np.zeros(channels, np.int64), np.zeros(channels, np.int64)) for _ in parts]
    for step in (0, 1, -1, 2, -2, 3):
        m = np.maximum(start + step, 0)
        bounds = [_offsets(t, levels, m, s, lo, hi) for lo, hi in parts]
        good = ~found
        for least, most in bounds:
            good &= least <= most
        best = np.where(good, m, best)
        for i, (least, most) in enumerate(bounds):
            chosen[i] = (np.where(good, least, chosen[i][0]), np.where(good, most, chosen[i][1]))
        found |= good
        if found.all():
            return best, chosen
    return None


def _high(m: I64, least: I64, most: I64, bias: I64) -> tuple[I64, I64] | None:
    """(B + bias, R) per channel with least <= B * m + R * 2^32 <= most, B small; None if a channel has none."""
    b, r = np.zeros_like(m), np.zeros_like(m)
    todo = np.arange(m.shape[0])
    for tries in HIGH_TRIES:
        first = (_middle(least[todo], most[todo]) >> 32) - tries // 2
        rs = np.arange(tries, dtype=np.int64)[:, None] + first
        rest = least[todo] - (rs << 32)
        # the least multiple in or above the interval
        bs = np.where(m[todo] > 0, -(-rest // np.maximum(m[todo], 1)), -bias[todo])
        good = (bs * m[todo] <= most[todo] - (rs << 32)) & (bs * m[todo] >= rest) & (np.abs(bs + bias[todo]) < 1 << 30)
        best = np.argmin(np.where(good, np.abs(bs), 1 << 62), axis=0)
        each = np.arange(todo.size)
        b[todo], r[todo] = bs[best, each], rs[best, each]
        todo = todo[~good[best, each]]
        if todo.size == 0:
            return b + bias, r
    return None


def _high_fits(b: I64, r: I64, m: I64, raw_lo: I64, raw_hi: I64) -> bool:
    """Whether neither the accumulation that starts at b nor the sum with R leaves 32 bits."""
    reach = np.maximum(np.abs(raw_lo + b), np.abs(raw_hi + b))
    return int(reach.max()) < 1 << 31 and int((((reach * m) >> 32) + np.abs(r)).max()) < (1 << 31) - 1


def _words(value: I64) -> list[npt.NDArray[np.int32]]:
    """Low and high words of 64-bit values."""
    low = (value & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return [low, (value >> 32).astype(np.int32)]


def plan_requant(
    requant: Requant, *, bias: I64, raw_lo: I64, raw_hi: I64, out_zero: int, clamp: Clamp
) -> RequantPlan | Refusal:
    """How to requantize accumulators `raw + bias`, with raw in [raw_lo, raw_hi] (all [channels], int64).

    Entries of the table: HIGH (bias + B, M, R). AFFINE (M, C lo, C hi), with the bias in C: the accumulation starts
    at 0. SPLIT (bias, M, C lo, C hi for a >= 0, C lo, C hi for a < 0). Exact modes (bias, multiplier, shift).
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
    multiplier = np.asarray(full.multiplier, np.int64)
    levels = np.arange(clamp.lo + 1, clamp.hi + 1, dtype=np.int64)[:, None]
    t = thresholds(full, out_zero, clamp, lo, hi)
    for shift in SHIFTS:
        fitted = _fit(full, t, levels, [(lo, hi)], 32 + shift)
        if fitted is not None:
            m, ((least, most),) = fitted
            high = _high(m, least, most, bias)
            if high is not None and _high_fits(*high, m, raw_lo, raw_hi):
                table = np.stack([column.astype(np.int32) for column in (high[0], m, high[1])], axis=1)
                return RequantPlan(Mode.HIGH, shift, out_zero, clamp, table)
            c = _middle(least, most)
            table = np.stack([m.astype(np.int32), *_words(c + bias * m)], axis=1)
            return RequantPlan(Mode.AFFINE, shift, out_zero, clamp, table)
    for shift in SHIFTS:
        zero = np.zeros_like(lo)
        fitted = _fit(full, t, levels, [(np.maximum(lo, zero), hi), (lo, np.minimum(hi, zero - 1))], 32 + shift)
        if fitted is not None:
            m, ranges = fitted
            above, below = (_middle(least, most) for least, most in ranges)
            table = np.stack([bias.astype(np.int32), m.astype(np.int32), *_words(above), *_words(below)], axis=1)
            return RequantPlan(Mode.SPLIT, shift, out_zero, clamp, table)
    shifts = np.asarray(full.shift, np.int64)
    table = np.stack([bias.astype(np.int32), multiplier.astype(np.int32), shifts.astype(np.int32)], axis=1)
    return RequantPlan(_EXACT[requant.rounding], 0, out_zero, clamp, table)
