/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What every kernel header needs: attributes, and which instructions the compiler may use.
 */
#ifndef MCUFUSE_COMMON_H_
#define MCUFUSE_COMMON_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A kernel is inlined into the one function that calls it with a constant configuration, which
 * specialises its loops.
 */
#define MF_INLINE   static inline __attribute__((always_inline))
#define MF_NOINLINE __attribute__((noinline))
#define MF_UNUSED   __attribute__((unused))
#define MF_UNROLL   _Pragma("GCC unroll 16")
#define MF_UNROLL_4 _Pragma("GCC unroll 4")

#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP
#define MF_HAS_DSP 1
#else
#define MF_HAS_DSP 0
#endif

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#define MF_HAS_MVE 1
#else
#define MF_HAS_MVE 0
#endif

/* Whether constants reach the assembly and the registers suffice for it. -Og cannot be told from -O1 here, and neither
 * can -fno-omit-frame-pointer: who compiles with them defines MCUFUSE_DEBUG and gets plain C in those places.
 */
#if defined(__OPTIMIZE__) && !defined(MCUFUSE_DEBUG)
#define MF_OPTIMIZED 1
#else
#define MF_OPTIMIZED 0
#endif

#define MF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MF_MAX(a, b) ((a) > (b) ? (a) : (b))

/** @brief @p x limited to [@p lo, @p hi]. */
MF_INLINE int32_t mf_clamp(int32_t x, int32_t lo, int32_t hi)
{
	return x < lo ? lo : (x > hi ? hi : x);
}

#endif /* MCUFUSE_COMMON_H_ */
