/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Steps of dot_dsp.h, conv2d_odd_dsp.h and depthwise_1d_dsp.h in assembly.
 *
 * They use 10 to 14 registers at once; GCC 12 given the same in C runs out of them and spills (1.05
 * instead of 0.75 instructions a multiplication). Words of weights are raw, see dot_dsp.h.
 */
#ifndef MCUFUSE_STEPS_DSP_H_
#define MCUFUSE_STEPS_DSP_H_

#include <mcufuse/simd.h>

/* For cores with MVE and -Os, GCC 12 keeps one register to itself. */
#if MF_HAS_DSP && MF_OPTIMIZED && !(MF_HAS_MVE && defined(__OPTIMIZE_SIZE__))
#define MF_HAS_STEPS 1

/** @brief One step of two pixels and four channels. */
#define MF_STEP_2X4(a, x, w)                                                                       \
	do {                                                                                       \
		uint32_t x0_, x1_, w0_, w1_;                                                       \
		__asm__("ldrd %[x0], %[x1], [%[px]], #8\n\t"                                       \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a01], %[x0], %[w0], %[a01]\n\t"                                   \
			"smlad %[a11], %[x1], %[w0], %[a11]\n\t"                                   \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a03], %[x0], %[w1], %[a03]\n\t"                                   \
			"smlad %[a13], %[x1], %[w1], %[a13]\n\t"                                   \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a00], %[x0], %[w0], %[a00]\n\t"                                   \
			"smlad %[a10], %[x1], %[w0], %[a10]\n\t"                                   \
			"smlad %[a02], %[x0], %[w1], %[a02]\n\t"                                   \
			"smlad %[a12], %[x1], %[w1], %[a12]"                                       \
			: [a00] "+r"(a[0][0]), [a01] "+r"(a[0][1]), [a02] "+r"(a[0][2]),           \
			  [a03] "+r"(a[0][3]), [a10] "+r"(a[1][0]), [a11] "+r"(a[1][1]),           \
			  [a12] "+r"(a[1][2]), [a13] "+r"(a[1][3]), [px] "+r"(x), [pw] "+r"(w),    \
			  [x0] "=&r"(x0_), [x1] "=&r"(x1_), [w0] "=&r"(w0_), [w1] "=&r"(w1_)       \
			:                                                                          \
			: "memory");                                                               \
	} while (false)

/** @brief Two steps of one pixel and four channels. */
#define MF_STEP2_1X4(a, x, w)                                                                      \
	do {                                                                                       \
		uint32_t x0_, x1_, w0_, w1_;                                                       \
		__asm__("ldrd %[x0], %[x1], [%[px]], #8\n\t"                                       \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a1], %[x0], %[w0], %[a1]\n\t"                                     \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a3], %[x0], %[w1], %[a3]\n\t"                                     \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a0], %[x0], %[w0], %[a0]\n\t"                                     \
			"smlad %[a2], %[x0], %[w1], %[a2]\n\t"                                     \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a1], %[x1], %[w0], %[a1]\n\t"                                     \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a3], %[x1], %[w1], %[a3]\n\t"                                     \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a0], %[x1], %[w0], %[a0]\n\t"                                     \
			"smlad %[a2], %[x1], %[w1], %[a2]"                                         \
			: [a0] "+r"(a[0][0]), [a1] "+r"(a[0][1]), [a2] "+r"(a[0][2]),              \
			  [a3] "+r"(a[0][3]), [px] "+r"(x), [pw] "+r"(w), [x0] "=&r"(x0_),         \
			  [x1] "=&r"(x1_), [w0] "=&r"(w0_), [w1] "=&r"(w1_)                        \
			:                                                                          \
			: "memory");                                                               \
	} while (false)

/** @brief Two steps of one pixel, read as four bytes and widened here, and eight channels. */
#define MF_STEP2_1X8(a, x, w)                                                                      \
	do {                                                                                       \
		uint32_t x0_, x1_, w0_, w1_;                                                       \
		__asm__("ldr %[x1], [%[px]], #4\n\t"                                               \
			"sxtb16 %[x0], %[x1]\n\t"                                                  \
			"sxtb16 %[x1], %[x1], ror #8\n\t"                                          \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a1], %[x0], %[w0], %[a1]\n\t"                                     \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a3], %[x0], %[w1], %[a3]\n\t"                                     \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a0], %[x0], %[w0], %[a0]\n\t"                                     \
			"smlad %[a2], %[x0], %[w1], %[a2]\n\t"                                     \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a5], %[x0], %[w0], %[a5]\n\t"                                     \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a7], %[x0], %[w1], %[a7]\n\t"                                     \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a4], %[x0], %[w0], %[a4]\n\t"                                     \
			"smlad %[a6], %[x0], %[w1], %[a6]\n\t"                                     \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a1], %[x1], %[w0], %[a1]\n\t"                                     \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a3], %[x1], %[w1], %[a3]\n\t"                                     \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a0], %[x1], %[w0], %[a0]\n\t"                                     \
			"smlad %[a2], %[x1], %[w1], %[a2]\n\t"                                     \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"smlad %[a5], %[x1], %[w0], %[a5]\n\t"                                     \
			"sxtb16 %[w0], %[w0]\n\t"                                                  \
			"smlad %[a7], %[x1], %[w1], %[a7]\n\t"                                     \
			"sxtb16 %[w1], %[w1]\n\t"                                                  \
			"smlad %[a4], %[x1], %[w0], %[a4]\n\t"                                     \
			"smlad %[a6], %[x1], %[w1], %[a6]"                                         \
			: [a0] "+r"(a[0][0]), [a1] "+r"(a[0][1]), [a2] "+r"(a[0][2]),              \
			  [a3] "+r"(a[0][3]), [a4] "+r"(a[0][4]), [a5] "+r"(a[0][5]),              \
			  [a6] "+r"(a[0][6]), [a7] "+r"(a[0][7]), [px] "+r"(x), [pw] "+r"(w),      \
			  [x0] "=&r"(x0_), [x1] "=&r"(x1_), [w0] "=&r"(w0_), [w1] "=&r"(w1_)       \
			:                                                                          \
			: "memory");                                                               \
	} while (false)

/** @brief Widen four values of two pixels. */
#define MF_WIDEN_2X4(to, x0, x1)                                                                   \
	do {                                                                                       \
		uint32_t a0_, a1_, b0_, b1_;                                                       \
		__asm__("ldr %[a0], [%[px]], #4\n\t"                                               \
			"ldr %[a1], [%[py]], #4\n\t"                                               \
			"sxtb16 %[b0], %[a0]\n\t"                                                  \
			"sxtb16 %[b1], %[a1]\n\t"                                                  \
			"strd %[b0], %[b1], [%[pt]], #8\n\t"                                       \
			"sxtb16 %[a0], %[a0], ror #8\n\t"                                          \
			"sxtb16 %[a1], %[a1], ror #8\n\t"                                          \
			"strd %[a0], %[a1], [%[pt]], #8"                                           \
			: [px] "+r"(x0), [py] "+r"(x1), [pt] "+r"(to), [a0] "=&r"(a0_),            \
			  [a1] "=&r"(a1_), [b0] "=&r"(b0_), [b1] "=&r"(b1_)                        \
			:                                                                          \
			: "memory");                                                               \
	} while (false)

/** One step of MF_WALK_3X2. */
#define MF_STEP_3X2                                                                                \
	"ldmia %[px]!, {r8, r9, r10}\n\t"                                                          \
	"ldr %[w0], [%[pw]], #8\n\t"                                                               \
	"smlad %[a01], r8, %[w0], %[a01]\n\t"                                                      \
	"smlad %[a11], r9, %[w0], %[a11]\n\t"                                                      \
	"smlad %[a21], r10, %[w0], %[a21]\n\t"                                                     \
	"sxtb16 %[w0], %[w0]\n\t"                                                                  \
	"smlad %[a00], r8, %[w0], %[a00]\n\t"                                                      \
	"smlad %[a10], r9, %[w0], %[a10]\n\t"                                                      \
	"smlad %[a20], r10, %[w0], %[a20]\n\t"
#define MF_STEP4_3X2 MF_STEP_3X2 MF_STEP_3X2 MF_STEP_3X2 MF_STEP_3X2

/**
 * @brief Steps of three pixels and two channels, whose words are every second one, until @p x is @p end:
 * as many of @p steps as it takes.
 */
#define MF_WALK_3X2(a, x, w, end, steps)                                                           \
	do {                                                                                       \
		uint32_t w0_;                                                                      \
		__asm__("1:\n\t" steps "cmp %[px], %[stop]\n\t"                                    \
			"bne 1b"                                                                   \
			: [a00] "+r"(a[0][0]), [a01] "+r"(a[0][1]), [a10] "+r"(a[1][0]),           \
			  [a11] "+r"(a[1][1]), [a20] "+r"(a[2][0]), [a21] "+r"(a[2][1]),           \
			  [px] "+r"(x), [pw] "+r"(w), [w0] "=&r"(w0_)                              \
			: [stop] "r"(end)                                                          \
			: "r8", "r9", "r10", "cc", "memory");                                      \
	} while (false)

/** @brief One step of depthwise_1d_dsp.h: two rows of a window (pointers at @p rows) and four channels. */
#define MF_STEP_1D(a, rows, offset, w)                                                             \
	do {                                                                                       \
		uint32_t x0_, x1_, w0_, w1_, t0_, t1_;                                             \
		__asm__("ldrd %[x0], %[x1], [%[pr]], #8\n\t"                                       \
			"ldrd %[w0], %[w1], [%[pw]], #8\n\t"                                       \
			"ldr %[x0], [%[x0], %[at]]\n\t"                                            \
			"ldr %[x1], [%[x1], %[at]]\n\t"                                            \
			"sxtb16 %[t1], %[w0]\n\t"                                                  \
			"sxtb16 %[w0], %[w0], ror #8\n\t"                                          \
			"pkhbt %[t0], %[x0], %[x1], lsl #16\n\t"                                   \
			"pkhtb %[x1], %[x1], %[x0], asr #16\n\t"                                   \
			"sxtb16 %[x0], %[t0]\n\t"                                                  \
			"sxtb16 %[t0], %[t0], ror #8\n\t"                                          \
			"smlad %[a0], %[x0], %[t1], %[a0]\n\t"                                     \
			"smlad %[a1], %[t0], %[w0], %[a1]\n\t"                                     \
			"sxtb16 %[x0], %[x1]\n\t"                                                  \
			"sxtb16 %[x1], %[x1], ror #8\n\t"                                          \
			"sxtb16 %[t1], %[w1]\n\t"                                                  \
			"sxtb16 %[w1], %[w1], ror #8\n\t"                                          \
			"smlad %[a2], %[x0], %[t1], %[a2]\n\t"                                     \
			"smlad %[a3], %[x1], %[w1], %[a3]"                                         \
			: [a0] "+r"(a[0]), [a1] "+r"(a[1]), [a2] "+r"(a[2]), [a3] "+r"(a[3]),      \
			  [pr] "+r"(rows), [pw] "+r"(w), [x0] "=&r"(x0_), [x1] "=&r"(x1_),         \
			  [w0] "=&r"(w0_), [w1] "=&r"(w1_), [t0] "=&r"(t0_), [t1] "=&r"(t1_)       \
			: [at] "r"(offset)                                                         \
			: "memory");                                                               \
	} while (false)

#else
#define MF_HAS_STEPS                     0
#define MF_WALK_3X2(a, x, w, end, steps) (void)(a), (void)(x), (void)(w), (void)(end)
#define MF_STEP_1D(a, rows, offset, w)   (void)(a), (void)(rows), (void)(offset), (void)(w)
#define MF_WIDEN_2X4(to, x0, x1)         (void)(to), (void)(x0), (void)(x1)
#define MF_STEP_2X4(a, x, w)             (void)(a), (void)(x), (void)(w)
#define MF_STEP2_1X4(a, x, w)            (void)(a), (void)(x), (void)(w)
#define MF_STEP2_1X8(a, x, w)            (void)(a), (void)(x), (void)(w)
#endif

#endif /* MCUFUSE_STEPS_DSP_H_ */
