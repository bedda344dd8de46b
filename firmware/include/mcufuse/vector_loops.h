/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Loops over bytes with the vector instructions of Armv8.1-M (MVE, Helium).
 *
 * Each function returns how many elements it has done: all of them, or none on a core without these
 * instructions, where the caller's loop in plain C does the work. The results are the same.
 */
#ifndef MCUFUSE_VECTOR_LOOPS_H_
#define MCUFUSE_VECTOR_LOOPS_H_

#include <mcufuse/common.h>

#if MF_HAS_MVE
#include <arm_mve.h>
#endif

/** @brief y[i] = table[x[i]]. */
MF_INLINE int32_t mf_vector_lookup(const uint8_t *table, const uint8_t *x, uint8_t *y, int32_t n)
{
#if MF_HAS_MVE
	int32_t i = 0;

	for (; i + 16 <= n; i += 16) {
		vstrbq_u8(y + i, vldrbq_gather_offset_u8(table, vldrbq_u8(x + i)));
	}
	if (i < n) {
		mve_pred16_t some = vctp8q((uint32_t)(n - i));
		uint8x16_t index = vldrbq_z_u8(x + i, some);

		vstrbq_p_u8(y + i, vldrbq_gather_offset_z_u8(table, index, some), some);
	}
	return n;
#else
	(void)table;
	(void)x;
	(void)y;
	(void)n;
	return 0;
#endif
}

/** @brief A sum of two maps in 32 bits: clamp((a * a_factor + b * b_factor + base) >> shift). */
struct mf_vector_sum {
	int32_t a_factor;
	int32_t b_factor;
	int32_t base;
	int shift;
	int32_t lo;
	int32_t hi;
};

#if MF_HAS_MVE
/** @brief Four sums. */
MF_INLINE int32x4_t mf_vector_add4(const struct mf_vector_sum *sum, int32x4_t a, int32x4_t b)
{
	int32x4_t v = vmlaq_n_s32(vdupq_n_s32(sum->base), a, sum->a_factor);

	v = vshlq_r_s32(vmlaq_n_s32(v, b, sum->b_factor), -sum->shift);
	return vminq_s32(vmaxq_s32(v, vdupq_n_s32(sum->lo)), vdupq_n_s32(sum->hi));
}
#endif

/** @brief The sum of @p n elements; @p out may be @p a or @p b. */
MF_INLINE int32_t mf_vector_add(const struct mf_vector_sum *sum, const int8_t *a, const int8_t *b,
				int8_t *out, int32_t n)
{
#if MF_HAS_MVE
	int32_t i = 0;

	for (; i + 4 <= n; i += 4) {
		vstrbq_s32(out + i, mf_vector_add4(sum, vldrbq_s32(a + i), vldrbq_s32(b + i)));
	}
	if (i < n) {
		mve_pred16_t some = vctp32q((uint32_t)(n - i));
		int32x4_t x = vldrbq_z_s32(a + i, some);
		int32x4_t y = vldrbq_z_s32(b + i, some);

		vstrbq_p_s32(out + i, mf_vector_add4(sum, x, y), some);
	}
	return n;
#else
	(void)sum;
	(void)a;
	(void)b;
	(void)out;
	(void)n;
	return 0;
#endif
}

/** @brief A window: @p height rows of @p width pixels, each of @p channels bytes. */
struct mf_vector_window {
	const int8_t *const *rows;
	int32_t offset; /**< of the first pixel in each row, bytes */
	int32_t height;
	int32_t width;
	int32_t channels;
};

/** @brief The maximum of a window for each channel, limited to [@p lo, @p hi]. */
MF_INLINE int32_t mf_vector_max(const struct mf_vector_window *window, int32_t lo, int32_t hi,
				int8_t *out)
{
#if MF_HAS_MVE
	for (int32_t c = 0; c < window->channels; c += 16) {
		mve_pred16_t some = vctp8q((uint32_t)(window->channels - c));
		int8x16_t best = vdupq_n_s8((int8_t)lo);

		for (int32_t r = 0; r < window->height; r++) {
			const int8_t *x = window->rows[r] + window->offset + c;

			for (int32_t k = 0; k < window->width; k++) {
				best = vmaxq_s8(best, vldrbq_z_s8(x + k * window->channels, some));
			}
		}
		vstrbq_p_s8(out + c, vminq_s8(best, vdupq_n_s8((int8_t)hi)), some);
	}
	return window->channels;
#else
	(void)window;
	(void)lo;
	(void)hi;
	(void)out;
	return 0;
#endif
}

/** @brief Adds @p width pixels of @p channels bytes to @p sums, or to zeros if they are the @p first. */
MF_INLINE int32_t mf_vector_sums(const int8_t *x, int32_t width, int32_t channels, bool first,
				 int16_t *sums)
{
#if MF_HAS_MVE
	int32_t c = 0;

	for (; c + 8 <= channels; c += 8) {
		int16x8_t sum = first ? vdupq_n_s16(0) : vldrhq_s16(sums + c);
		const int8_t *at = x + c;

		MF_UNROLL_4
		for (int32_t i = 0; i < width; i++) {
			sum = vaddq_s16(sum, vldrbq_s16(at));
			at += channels;
		}
		vstrhq_s16(sums + c, sum);
	}
	if (c < channels) {
		mve_pred16_t some = vctp16q((uint32_t)(channels - c));
		int16x8_t sum = first ? vdupq_n_s16(0) : vldrhq_z_s16(sums + c, some);

		for (int32_t i = 0; i < width; i++) {
			sum = vaddq_s16(sum, vldrbq_z_s16(x + c + i * channels, some));
		}
		vstrhq_p_s16(sums + c, sum, some);
	}
	return channels;
#else
	(void)x;
	(void)width;
	(void)channels;
	(void)first;
	(void)sums;
	return 0;
#endif
}

#endif /* MCUFUSE_VECTOR_LOOPS_H_ */
