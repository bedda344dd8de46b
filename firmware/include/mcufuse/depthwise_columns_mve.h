/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Depthwise convolution with vectors (MVE) for windows of at most 4x4 values.
 *
 * The rows of the window are interleaved first, for a group of channels at a time, with the padding
 * filled in, so that the values of one column of one channel are a word:
 *
 *     scratch: 16 zero points, then [column][channel of the group][row 0..3]
 *
 * An output then is one gather of four words, column after column, and one sum of products. What is
 * loaded in place of a row or column that the window does not have is multiplied by 0.
 *
 *     weights: [channel][column][row 0..3], filled up to a multiple of four channels
 */
#ifndef MCUFUSE_DEPTHWISE_COLUMNS_MVE_H_
#define MCUFUSE_DEPTHWISE_COLUMNS_MVE_H_

#include <mcufuse/vector.h>

/** @brief Shape of a depthwise convolution. */
struct mf_depthwise_columns_cfg {
	uint16_t in_w;
	uint16_t in_c;
	uint16_t out_w;
	uint16_t group; /**< channels interleaved at a time: all of them, or a multiple of 16 */
	uint8_t pad_left;
	uint8_t pad_right;
	uint8_t stride_w;
	uint8_t dilation_w;
	uint8_t k_h;
	uint8_t k_w;
	bool rest; /**< the channels are no multiple of four */
	uint8_t rq_mode;
	uint8_t rq_shift;
	int16_t rq_lo;
	int16_t rq_hi;
};

/** @brief Constants of a layer. */
struct mf_depthwise_columns_data {
	const int8_t *weights;
	const int32_t *requant; /**< blocks of vector.h */
	int8_t in_zero;
	int8_t out_zero;
};

/** @brief Rows that are being interleaved: a run of reads and writes with constant steps. */
struct mf_columns_run {
	const int8_t *at[4];
	int step[4];  /**< of the reads; 0 for rows of padding, which stay where they are */
	int count;    /**< of steps */
	int to_step;  /**< of the writes */
	int values;   /**< that are left, at most 16 of which a step reads */
	int consumed; /**< of these in a step */
};

/** @brief Interleave a run of @p rows rows, three or four; each step writes 16 words. */
MF_INLINE void mf_columns_interleave(struct mf_columns_run run, int rows, int8_t *to)
{
	do {
#if MF_HAS_MVE
		mve_pred16_t some; /* written by VCTP */

		if (rows == 3) {
			__asm__ volatile("vctp.8 %[n]\n\t"
					 "vpsttt\n\t"
					 "vldrbt.u8 q0, [%[a]]\n\t"
					 "vldrbt.u8 q1, [%[b]]\n\t"
					 "vldrbt.u8 q2, [%[c]]\n\t"
					 "vst40.8 {q0, q1, q2, q3}, [%[to]]\n\t"
					 "vst41.8 {q0, q1, q2, q3}, [%[to]]\n\t"
					 "vst42.8 {q0, q1, q2, q3}, [%[to]]\n\t"
					 "vst43.8 {q0, q1, q2, q3}, [%[to]]"
					 : "=Up"(some)
					 : [n] "r"(run.values), [a] "r"(run.at[0]),
					   [b] "r"(run.at[1]), [c] "r"(run.at[2]), [to] "r"(to)
					 : "q0", "q1", "q2", "q3", "memory");
		} else {
			__asm__ volatile(
				"vctp.8 %[n]\n\t"
				"vpstttt\n\t"
				"vldrbt.u8 q0, [%[a]]\n\t"
				"vldrbt.u8 q1, [%[b]]\n\t"
				"vldrbt.u8 q2, [%[c]]\n\t"
				"vldrbt.u8 q3, [%[d]]\n\t"
				"vst40.8 {q0, q1, q2, q3}, [%[to]]\n\t"
				"vst41.8 {q0, q1, q2, q3}, [%[to]]\n\t"
				"vst42.8 {q0, q1, q2, q3}, [%[to]]\n\t"
				"vst43.8 {q0, q1, q2, q3}, [%[to]]"
				: "=Up"(some)
				: [n] "r"(run.values), [a] "r"(run.at[0]), [b] "r"(run.at[1]),
				  [c] "r"(run.at[2]), [d] "r"(run.at[3]), [to] "r"(to)
				: "q0", "q1", "q2", "q3", "memory");
		}
#else
		for (int k = 0; k < 16; k++) {
			for (int i = 0; i < 4; i++) {
				to[4 * k + i] = i < rows && k < run.values ? run.at[i][k] : 0;
			}
		}
#endif
		MF_UNROLL
		for (int i = 0; i < 4; i++) {
			run.at[i] += i < rows ? run.step[i] : 0;
		}
		to += run.to_step;
		run.values -= run.consumed;
	} while (--run.count != 0);
}

/** @brief Set @p n bytes and up to 15 more. */
MF_INLINE void mf_columns_fill(int8_t *to, int8_t value, int n)
{
#if MF_HAS_MVE
	for (; n > 0; n -= 16) {
		vstrbq_s8(to, vdupq_n_s8(value));
		to += 16;
	}
#else
	mf_fill_s8(to, value, n);
#endif
}

#if MF_HAS_MVE
/** @brief Sums of products of four channels; @p columns: addresses of the first channel. */
MF_INLINE int32x4_t mf_columns_sums(uint32x4_t columns, const int8x16_t w[4])
{
	int32_t r0, r1, r2, r3;
	int32x4_t sum, spare;

	__asm__("vldrw.u32 %q[s], [%q[at]]\n\t"
		"vldrw.u32 %q[t], [%q[at], #4]\n\t"
		"vmladav.s8 %[r0], %q[s], %q[w0]\n\t"
		"vldrw.u32 %q[s], [%q[at], #8]\n\t"
		"vmladav.s8 %[r1], %q[t], %q[w1]\n\t"
		"vldrw.u32 %q[t], [%q[at], #12]\n\t"
		"vmladav.s8 %[r2], %q[s], %q[w2]\n\t"
		"vmladav.s8 %[r3], %q[t], %q[w3]\n\t"
		"vmov %q[s][2], %q[s][0], %[r0], %[r2]\n\t"
		"vmov %q[s][3], %q[s][1], %[r1], %[r3]"
		: [s] "=&w"(sum), [t] "=&w"(spare), [r0] "=&Te"(r0), [r1] "=&Te"(r1),
		  [r2] "=&Te"(r2), [r3] "=&Te"(r3)
		: [at] "w"(columns), [w0] "w"(w[0]), [w1] "w"(w[1]), [w2] "w"(w[2]), [w3] "w"(w[3])
		: "memory");
	return sum;
}

/** @brief Limit and store the first @p n of four outputs. */
MF_INLINE void mf_columns_store(const struct mf_requant_cfg *rq, int32x4_t y, int8_t *out, int n)
{
	int8x16_t byte;

	/* the intrinsics make GCC 12 copy the vectors */
	__asm__("vqmovnb.s32 %q0, %q0\n\tvqmovnb.s16 %q0, %q0" : "+w"(y));
	byte = vreinterpretq_s8_s32(y);
	if (rq->lo > -128) {
		byte = vmaxq_s8(byte, vdupq_n_s8((int8_t)rq->lo));
	}
	if (rq->hi < 127) {
		byte = vminq_s8(byte, vdupq_n_s8((int8_t)rq->hi));
	}
	if (n == MF_VECTOR_LANES) {
		vstrbq_s32(out, vreinterpretq_s32_s8(byte));
	} else {
		vstrbq_p_s32(out, vreinterpretq_s32_s8(byte), vctp32q((uint32_t)n));
	}
}
#endif

#if MF_HAS_MVE
/** @brief The addresses of the four columns of the first output. */
MF_INLINE uint32x4_t mf_columns_start(const struct mf_depthwise_columns_cfg *cfg,
				      const int8_t *columns, int pitch)
{
	const uint32x4_t lanes = vminq_u32(vidupq_n_u32(0, 1), vdupq_n_u32(cfg->k_w - 1U));

	return vmlaq_n_u32(vdupq_n_u32((uint32_t)(uintptr_t)columns), lanes,
			   (uint32_t)(cfg->dilation_w * pitch));
}
#endif

/** @brief @p n channels, at most four, of all outputs; @p columns: of the first channel. */
MF_INLINE void mf_columns_block(const struct mf_depthwise_columns_cfg *cfg,
				const struct mf_requant_cfg *rq, const int8_t *columns, int pitch,
				const int8_t *w, const int32_t *table, int8_t *out, int n)
{
	const int k_w = cfg->k_w;
	const int step = cfg->stride_w * pitch;
	int p = cfg->out_w;
#if MF_HAS_MVE
	uint32x4_t at = mf_columns_start(cfg, columns, pitch);
	const int8x16_t weights[4] = {
		mf_bytes_load(w, 4 * k_w).v,
		mf_bytes_load(w + 4 * k_w, 4 * k_w).v,
		mf_bytes_load(w + 8 * k_w, 4 * k_w).v,
		mf_bytes_load(w + 12 * k_w, 4 * k_w).v,
	};

	do {
		int32x4_t sum = mf_columns_sums(at, weights);
		struct mf_vector_table words;

		words.word[0] = vldrwq_s32(table);
		words.word[1] = vldrwq_s32(table + 4);
		words.word[2] = vldrwq_s32(table + 8);
		mf_columns_store(rq, mf_vector_scale(rq, &words, sum), out, n);
		at = vaddq_n_u32(at, (uint32_t)step);
		out += cfg->in_c;
	} while (--p != 0);
#else
	for (; p != 0; p--) {
		for (int j = 0; j < n; j++) {
			int32_t acc = 0;

			for (int k = 0; k < 4 * k_w; k++) {
				acc += columns[k / 4 * cfg->dilation_w * pitch + 4 * j + k % 4] *
				       w[4 * k_w * j + k];
			}
			out[j] = mf_vector_requant_one(rq, table, acc, j);
		}
		columns += step;
		out += cfg->in_c;
	}
#endif
}

/**
 * @brief Interleave @p n channels of all columns, with padding.
 *
 * All channels of a row are one run of values; of some channels, sixteen at a time, each column is
 * read on its own.
 *
 * @param pitch from column to column, bytes
 */
MF_INLINE void mf_columns_gather(const struct mf_depthwise_columns_cfg *cfg,
				 const int8_t *const *in, const int8_t *zeros, int channel, int n,
				 int pitch, int8_t zero, int8_t *to)
{
	const bool all = n == cfg->in_c;
	const int rows = cfg->k_h > 3 ? 4 : 3;
	int8_t *end = to + (cfg->pad_left + cfg->in_w) * pitch;
	struct mf_columns_run run = {
		.count = all ? (cfg->in_w * n + 15) / 16 : cfg->in_w,
		.to_step = all ? 64 : pitch,
		.values = all ? cfg->in_w * n : n,
		.consumed = all ? 16 : 0,
	};

	mf_columns_fill(to, zero, cfg->pad_left * pitch);
	to += cfg->pad_left * pitch;
	for (int k = 0; k < n; k += 16) {
		MF_UNROLL
		for (int i = 0; i < rows; i++) {
			const int8_t *row = in[i < cfg->k_h ? i : 0];

			run.at[i] = row != NULL ? row + channel + k : zeros;
			run.step[i] = row == NULL ? 0 : all ? 16 : cfg->in_c;
		}
		mf_columns_interleave(run, rows, to + 4 * k);
		if (all) {
			break;
		}
		run.values -= 16;
	}
	mf_columns_fill(end, zero, cfg->pad_right * pitch);
}

/** @brief One output row. */
MF_INLINE void mf_depthwise_columns_row_s8_mve(const struct mf_depthwise_columns_cfg *cfg,
					       const struct mf_depthwise_columns_data *data,
					       const int8_t *const *in, int8_t *out, int tick,
					       void *scratch)
{
	const struct mf_requant_cfg rq = MF_REQUANT_CFG(cfg, data);
	const int8_t *w = data->weights;
	const int32_t *table = data->requant;
	int8_t *zeros = scratch;
	int8_t *columns = zeros + 16;

	(void)tick;
	mf_columns_fill(zeros, data->in_zero, 16);
	MF_KEEP(w);
	MF_KEEP(table);
	for (int g = 0; g < cfg->in_c; g += cfg->group) {
		const int n = MF_MIN(cfg->in_c - g, cfg->group);
		const int pitch = 4 * (n == cfg->in_c ? n : (n + 15) & ~15);

		mf_columns_gather(cfg, in, zeros, g, n, pitch, data->in_zero, columns);
		for (int c = 0; c < n; c += MF_VECTOR_LANES) {
			if (cfg->rest && n - c < MF_VECTOR_LANES) {
				mf_columns_block(cfg, &rq, columns + 4 * c, pitch, w, table,
						 out + g + c, n - c);
			} else {
				mf_columns_block(cfg, &rq, columns + 4 * c, pitch, w, table,
						 out + g + c, MF_VECTOR_LANES);
			}
			w += 4 * MF_VECTOR_LANES * cfg->k_w;
			table += 3 * MF_VECTOR_LANES;
		}
	}
}

#endif /* MCUFUSE_DEPTHWISE_COLUMNS_MVE_H_ */
