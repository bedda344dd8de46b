/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Inverted bottleneck (1x1 expand, depthwise, 1x1 project) in vertical strips, one output
 * row at a time.
 *
 * The expanded map never exists, not even in a line buffer: for each strip of an output row its
 * k_h rows of `columns` pixels are computed anew, then filtered and projected.
 *
 *     scratch: [the row functions' scratch | k_h x columns expanded pixels | width filtered pixels]
 *
 * All strips have the same width; the last one starts before the end of the one before where they
 * do not divide the row. Expanded columns outside the map are filled with the depthwise's zero point.
 */
#ifndef MCUFUSE_BOTTLENECK_H_
#define MCUFUSE_BOTTLENECK_H_

#include <mcufuse/conv2d.h>
#include <mcufuse/depthwise_conv2d.h>

/** Most rows of a window. */
#define MF_BOTTLENECK_ROWS 11

/** @brief How rows are cut into strips. */
struct mf_bottleneck_shape {
	uint16_t in_w;
	uint16_t in_c;
	uint16_t middle_c; /**< channels between expand and project */
	uint16_t out_w;
	uint16_t out_c;
	uint16_t strips;
	uint16_t width;    /**< outputs of a strip */
	uint16_t columns;  /**< expanded columns of a strip */
	uint16_t pad_left; /**< of the depthwise */
	uint32_t inner;    /**< bytes of the row functions' own scratch */
	uint8_t k_h;
	uint8_t stride_w;
	int8_t zero; /**< what the depthwise reads where there is no map */
};

/** @brief Shape of a bottleneck: the parts' shapes are those of one strip. */
struct mf_bottleneck_cfg {
	struct mf_bottleneck_shape shape;
	struct mf_conv2d_cfg expand; /**< out_w varies */
	struct mf_depthwise_conv2d_cfg depthwise;
	struct mf_conv2d_cfg project;
};

/** @brief Constants of the three layers. */
struct mf_bottleneck_data {
	struct mf_conv2d_data expand;
	struct mf_depthwise_conv2d_data depthwise;
	struct mf_conv2d_data project;
};

/** @brief Columns of one strip. */
struct mf_bottleneck_strip {
	int first;  /**< first output column */
	int before; /**< columns left of the map */
	int begin;  /**< first column of the map */
	int inside; /**< columns of the map */
};

/** @brief The columns of strip @p i. */
MF_INLINE struct mf_bottleneck_strip mf_bottleneck_strip(const struct mf_bottleneck_shape *shape,
							 int i)
{
	const int first = MF_MIN(i * shape->width, shape->out_w - shape->width);
	const int start = first * shape->stride_w - shape->pad_left;
	const int begin = MF_MAX(start, 0);
	const int end = MF_MIN(start + shape->columns, shape->in_w);

	return (struct mf_bottleneck_strip){first, begin - start, begin, end - begin};
}

/** @brief The place of expanded row @p i of a strip. */
MF_INLINE int8_t *mf_bottleneck_row(const struct mf_bottleneck_shape *shape, void *scratch, int i)
{
	return (int8_t *)scratch + shape->inner + i * shape->columns * shape->middle_c;
}

/** @brief Fill the columns of a row that lie outside the map; returns where those inside begin. */
MF_INLINE int8_t *mf_bottleneck_pad(const struct mf_bottleneck_shape *shape,
				    const struct mf_bottleneck_strip *strip, int8_t *row)
{
	int8_t *at = row + strip->before * shape->middle_c;
	const int after = shape->columns - strip->before - strip->inside;

	if (strip->before > 0) {
		mf_fill_s8(row, shape->zero, strip->before * shape->middle_c);
	}
	if (after > 0) {
		mf_fill_s8(at + strip->inside * shape->middle_c, shape->zero,
			   after * shape->middle_c);
	}
	return at;
}

/** @brief Expand the rows of a strip; @p rows receives their places, NULL for padding. */
MF_INLINE void mf_bottleneck_expand(const struct mf_bottleneck_shape *shape,
				    const struct mf_bottleneck_strip *strip,
				    const struct mf_conv2d_cfg *cfg,
				    const struct mf_conv2d_data *data, const int8_t *const *in,
				    const int8_t **rows, int tick, void *scratch)
{
	struct mf_conv2d_cfg expand = *cfg;

	expand.out_w = (uint16_t)strip->inside;
	for (int i = 0; i < shape->k_h; i++) {
		int8_t *row = mf_bottleneck_row(shape, scratch, i);
		const int8_t *from;

		rows[i] = in[i] != NULL ? row : NULL;
		if (in[i] != NULL) {
			from = in[i] + strip->begin * shape->in_c;
			mf_conv2d_row_s8(&expand, data, &from, mf_bottleneck_pad(shape, strip, row),
					 tick, scratch);
		}
	}
}

/** @brief One output row. */
MF_INLINE void mf_bottleneck_row_s8(const struct mf_bottleneck_cfg *cfg,
				    const struct mf_bottleneck_data *data, const int8_t *const *in,
				    int8_t *out, int tick, void *scratch)
{
	const struct mf_bottleneck_shape *shape = &cfg->shape;
	int8_t *filtered = mf_bottleneck_row(shape, scratch, shape->k_h);
	const int8_t *const middle = filtered;
	const int8_t *rows[MF_BOTTLENECK_ROWS];

	for (int s = 0; s < shape->strips; s++) {
		const struct mf_bottleneck_strip strip = mf_bottleneck_strip(shape, s);

		mf_bottleneck_expand(shape, &strip, &cfg->expand, &data->expand, in, rows, tick,
				     scratch);
		mf_depthwise_conv2d_row_s8(&cfg->depthwise, &data->depthwise, rows, filtered, tick,
					   scratch);
		mf_conv2d_row_s8(&cfg->project, &data->project, &middle,
				 out + strip.first * shape->out_c, tick, scratch);
	}
}

#endif /* MCUFUSE_BOTTLENECK_H_ */
