/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The vectors of 16 bytes of Armv8.1-M (MVE), each operation with its meaning in C beside it.
 *
 * This is the only header of the convolutions that contains conditionals for MVE.
 */
#ifndef MCUFUSE_VECTOR_H_
#define MCUFUSE_VECTOR_H_

#include <mcufuse/requant.h>

#if MF_HAS_MVE
#include <arm_mve.h>
#endif

/** Channels that are requantized together. */
#define MF_VECTOR_LANES 4

/** @brief Sixteen signed bytes. */
struct mf_bytes {
#if MF_HAS_MVE
	int8x16_t v;
#else
	int8_t v[16];
#endif
};

/** @brief The first @p n of the bytes at @p at, 0 for the others. */
MF_INLINE struct mf_bytes mf_bytes_load(const int8_t *at, int n)
{
	struct mf_bytes bytes;

#if MF_HAS_MVE
	bytes.v = n >= 16 ? vldrbq_s8(at) : vldrbq_z_s8(at, vctp8q((uint32_t)n));
#else
	for (int i = 0; i < 16; i++) {
		bytes.v[i] = i < n ? at[i] : 0;
	}
#endif
	return bytes;
}

/** @brief @p acc plus the sum of the sixteen products. */
MF_INLINE int32_t mf_bytes_dot(int32_t acc, struct mf_bytes a, struct mf_bytes b)
{
#if MF_HAS_MVE
	return vmladavaq_s8(acc, a.v, b.v);
#else
	for (int i = 0; i < 16; i++) {
		acc += a.v[i] * b.v[i];
	}
	return acc;
#endif
}

/** @brief Copy @p n bytes, forwards, in words as far as they go. */
MF_INLINE void mf_copy_s8(int8_t *to, const int8_t *from, int n)
{
#if MF_HAS_MVE
	for (; n >= 16; n -= 16) {
		vstrbq_s8(to, vldrbq_s8(from));
		to += 16;
		from += 16;
	}
	if (n % 4 == 0 && n < 12) {
		for (int i = 0; i < n; i += 4) {
			memcpy(to + i, from + i, 4);
		}
	} else if (n > 0) {
		vstrbq_p_s8(to, vldrbq_z_s8(from, vctp8q((uint32_t)n)), vctp8q((uint32_t)n));
	}
#else
	const int8_t *end = from + (n & ~3);

	while (from != end) {
		memcpy(to, from, 4);
		to += 4;
		from += 4;
	}
	MF_UNROLL
	for (int i = 0; i < 3; i++) {
		if (i < (n & 3)) {
			to[i] = from[i];
		}
	}
#endif
}

/** @brief Set @p n bytes. */
MF_INLINE void mf_fill_s8(int8_t *to, int8_t value, int n)
{
#if MF_HAS_MVE
	for (; n > 0; n -= 16) {
		vstrbq_p_s8(to, vdupq_n_s8(value), vctp8q((uint32_t)n));
		to += 16;
	}
#else
	const int8_t *end = to + n;

	while (to != end) {
		*to++ = value;
	}
#endif
}

#if MF_HAS_MVE && MF_OPTIMIZED
#define MF_HAS_VECTOR_RUNS 1

/*
 * A window in assembly, since GCC 12 does not use post-increments here, recomputes each address, and
 * moves the accumulators about: those of VMLADAVA are even registers, and here all of them are in
 * use, by name, since the compiler may fail to assign all of one class.
 *
 * The first run starts the sums. It has `first` values of each pixel, and `first` weights a channel;
 * when that is less than sixteen, a predicate makes zeros of the further values of the pixels, so that
 * it does not matter what stands behind them or behind the weights. `rest` runs of sixteen follow.
 */

/* Four channels of a run of one or two pixels; `dot` is VMLADAV or VMLADAVA, `n` the weights a channel. */
#define MF_RUN_1X4(dot, n)                                                                         \
	"vldrb.u8 q2, [%[pw]], " n "\n\t"                                                          \
	"vldrb.u8 q3, [%[pw]], " n "\n\t" dot ".s8 r0, q0, q2\n\t"                                 \
	"vldrb.u8 q2, [%[pw]], " n "\n\t" dot ".s8 r2, q0, q3\n\t"                                 \
	"vldrb.u8 q3, [%[pw]], " n "\n\t" dot ".s8 r4, q0, q2\n\t" dot ".s8 r6, q0, q3\n\t"
#define MF_RUN_2X4(dot, n)                                                                         \
	"vldrb.u8 q2, [%[pw]], " n "\n\t"                                                          \
	"vldrb.u8 q3, [%[pw]], " n "\n\t" dot ".s8 r0, q0, q2\n\t" dot ".s8 r8, q1, q2\n\t"        \
	"vldrb.u8 q2, [%[pw]], " n "\n\t" dot ".s8 r2, q0, q3\n\t" dot ".s8 r10, q1, q3\n\t"       \
	"vldrb.u8 q3, [%[pw]], " n "\n\t" dot ".s8 r4, q0, q2\n\t" dot ".s8 r12, q1, q2\n\t" dot   \
	".s8 r6, q0, q3\n\t" dot ".s8 lr, q1, q3\n\t"

/* The first run, whole or with a predicate. */
#define MF_RUN_FIRST_1                                                                             \
	".if %c[first] < 16\n\t"                                                                   \
	"vctp.8 %[count]\n\t"                                                                      \
	"vpst\n\t"                                                                                 \
	"vldrbt.u8 q0, [%[px]], %[first]\n\t"                                                      \
	".else\n\t"                                                                                \
	"vldrb.u8 q0, [%[px]], #16\n\t"                                                            \
	".endif\n\t" MF_RUN_1X4("vmladav", "%[first]")
#define MF_RUN_FIRST_2                                                                             \
	".if %c[first] < 16\n\t"                                                                   \
	"vctp.8 %[count]\n\t"                                                                      \
	"vpstt\n\t"                                                                                \
	"vldrbt.u8 q0, [%[px]], %[first]\n\t"                                                      \
	"vldrbt.u8 q1, [%[py]], %[first]\n\t"                                                      \
	".else\n\t"                                                                                \
	"vldrb.u8 q0, [%[px]], #16\n\t"                                                            \
	"vldrb.u8 q1, [%[py]], #16\n\t"                                                            \
	".endif\n\t" MF_RUN_2X4("vmladav", "%[first]")

/* The others. LR counts the runs of one pixel; with two it is one of the sums. */
#define MF_RUN_REST_1                                                                              \
	".if %c[rest]\n\t"                                                                         \
	"movw %[count], %[rest]\n\t"                                                               \
	"dls lr, %[count]\n"                                                                       \
	"1:\n\t"                                                                                   \
	"vldrb.u8 q0, [%[px]], #16\n\t" MF_RUN_1X4("vmladava", "#16") "le lr, 1b\n\t"              \
								      ".endif\n\t"
#define MF_RUN_REST_2                                                                              \
	".if %c[rest]\n\t"                                                                         \
	"movw %[count], %[rest]\n"                                                                 \
	"1:\n\t"                                                                                   \
	"vldrb.u8 q0, [%[px]], #16\n\t"                                                            \
	"vldrb.u8 q1, [%[py]], #16\n\t" MF_RUN_2X4("vmladava", "#16") "subs %[count], #1\n\t"      \
								      "bne 1b\n\t"                 \
								      ".endif\n\t"

/* The sums as vectors. */
#define MF_RUN_SUMS_1                                                                              \
	"vmov %q[v0][2], %q[v0][0], r0, r4\n\t"                                                    \
	"vmov %q[v0][3], %q[v0][1], r2, r6\n\t"
#define MF_RUN_SUMS_2                                                                              \
	MF_RUN_SUMS_1                                                                              \
	"vmov %q[v1][2], %q[v1][0], r8, r12\n\t"                                                   \
	"vmov %q[v1][3], %q[v1][1], r10, lr\n\t"

/** @brief The sums of one pixel times four channels. @p first and @p rest are constants. */
#define MF_VECTOR_RUNS_1X4(s0, x0, w, first_, rest_)                                               \
	do {                                                                                       \
		int count_ = first_;                                                               \
		mve_pred16_t vpr_; /* GCC has no name for a clobber */                             \
                                                                                                   \
		__asm__(MF_RUN_FIRST_1 MF_RUN_REST_1 MF_RUN_SUMS_1                                 \
			: [px] "+r"(x0), [pw] "+r"(w), [count] "+r"(count_), [v0] "=w"(s0),        \
			  [vpr] "=Up"(vpr_)                                                        \
			: [first] "i"(first_), [rest] "i"(rest_)                                   \
			: "r0", "r2", "r4", "r6", "lr", "q0", "q2", "q3", "cc", "memory");         \
	} while (false)

/** @brief The same of two pixels. */
#define MF_VECTOR_RUNS_2X4(s0, s1, x0, x1, w, first_, rest_)                                       \
	do {                                                                                       \
		int count_ = first_;                                                               \
		mve_pred16_t vpr_; /* as above */                                                  \
                                                                                                   \
		__asm__(MF_RUN_FIRST_2 MF_RUN_REST_2 MF_RUN_SUMS_2                                 \
			: [px] "+r"(x0), [py] "+r"(x1), [pw] "+r"(w), [count] "+r"(count_),        \
			  [v0] "=w"(s0), [v1] "=w"(s1), [vpr] "=Up"(vpr_)                          \
			: [first] "i"(first_), [rest] "i"(rest_)                                   \
			: "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "q0", "q1", "q2",      \
			  "q3", "cc", "memory");                                                   \
	} while (false)
#else
#define MF_HAS_VECTOR_RUNS 0
#endif

/** @brief Word @p i of channel @p j in a table whose blocks of four channels hold one word after the other. */
MF_INLINE int32_t mf_vector_word(const int32_t *block, int i, int j)
{
	return block[i * MF_VECTOR_LANES + j];
}

/** @brief Requantize one channel of a block. */
MF_INLINE int8_t mf_vector_requant_one(const struct mf_requant_cfg *rq, const int32_t *block,
				       int32_t acc, int j)
{
	const int32_t entry[3] = {
		mf_vector_word(block, 0, j),
		mf_vector_word(block, 1, j),
		mf_vector_word(block, 2, j),
	};

	return (int8_t)mf_requant(rq, entry, acc + mf_requant_start(rq, entry));
}

#if MF_HAS_MVE
/** @brief The table of a block of channels. */
struct mf_vector_table {
	int32x4_t word[3];
};

/** @brief Requantize a block of channels; the mode is HIGH_WIDE or TFLITE_RIGHT. Not clamped. */
MF_INLINE int32x4_t mf_vector_scale(const struct mf_requant_cfg *rq,
				    const struct mf_vector_table *table, int32x4_t acc)
{
	int32x4_t y = vaddq_s32(acc, table->word[0]);

	if (rq->mode == MF_REQUANT_HIGH_WIDE) {
		y = vaddq_s32(vmulhq_s32(y, table->word[1]), table->word[2]);
		return rq->shift > 0 ? vshlq_r_s32(y, -rq->shift) : y;
	}
	y = vqrdmulhq_s32(y, table->word[1]);
	/* VRSHL rounds halves up; away from zero takes one less for negative values, if there is a shift */
	y = vaddq_s32(y, vshrq_n_s32(vandq_s32(y, table->word[2]), 31));
	return vaddq_n_s32(vrshlq_s32(y, table->word[2]), rq->out_zero);
}
#endif

/** @brief Whether vectors can do the mode. */
MF_INLINE bool mf_vector_mode(int mode)
{
	return MF_HAS_MVE && (mode == MF_REQUANT_HIGH_WIDE || mode == MF_REQUANT_TFLITE_RIGHT);
}

#if MF_HAS_MVE
/** @brief Requantize and store the first @p n channels of a block for @p np pixels. */
MF_INLINE void mf_vector_store(const struct mf_requant_cfg *rq, const int32_t *block,
			       const int32x4_t sum[2], int8_t *out, int out_step, int np, int n)
{
	const struct mf_vector_table table = {
		{vldrwq_s32(block), vldrwq_s32(block + 4), vldrwq_s32(block + 8)},
	};

	MF_UNROLL
	for (int p = 0; p < np; p++) {
		int32x4_t y = mf_vector_scale(rq, &table, sum[p]);

		y = vminq_s32(vmaxq_s32(y, vdupq_n_s32(rq->lo)), vdupq_n_s32(rq->hi));
		if (n == MF_VECTOR_LANES) {
			vstrbq_s32(out + p * out_step, y);
		} else {
			vstrbq_p_s32(out + p * out_step, y, vctp32q((uint32_t)n));
		}
	}
}
#endif

/** @brief Requantize the first @p n channels of a block for @p np pixels and store them. */
MF_INLINE void mf_vector_requant(const struct mf_requant_cfg *rq, const int32_t *block,
				 int32_t acc[2][MF_VECTOR_LANES], int8_t *out, int out_step, int np,
				 int n)
{
#if MF_HAS_MVE
	if (mf_vector_mode(rq->mode)) {
		const int32x4_t sum[2] = {
			{acc[0][0], acc[0][1], acc[0][2], acc[0][3]},
			{acc[1][0], acc[1][1], acc[1][2], acc[1][3]},
		};

		mf_vector_store(rq, block, sum, out, out_step, np, n);
		return;
	}
#endif
	for (int p = 0; p < np; p++) {
		for (int j = 0; j < n; j++) {
			out[p * out_step + j] = mf_vector_requant_one(rq, block, acc[p][j], j);
		}
	}
}

#endif /* MCUFUSE_VECTOR_H_ */
