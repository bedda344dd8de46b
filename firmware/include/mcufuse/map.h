/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Where the rows of a tensor stand: all of them, or the last few in a circular line buffer.
 *
 *        ring = 3:   at -> [row 3][row 4][row 2]     row r stands in slot r % ring
 */
#ifndef MCUFUSE_MAP_H_
#define MCUFUSE_MAP_H_

#include <mcufuse/common.h>

/** Rows of a tensor. Always a compile-time constant, so that the arithmetic folds away. */
struct mf_map {
	uint8_t *at;       /**< slot 0 */
	int32_t height;    /**< rows of the tensor */
	int32_t ring;      /**< slots; @c height if the tensor stands in memory as a whole */
	int32_t row_bytes; /**< bytes of a row */
};

/** @brief Row @p r, which must be one of the last @c ring rows written. */
MF_INLINE int8_t *mf_map_row(const struct mf_map *map, int r)
{
	return (int8_t *)map->at + (map->ring < map->height ? r % map->ring : r) * map->row_bytes;
}

/** @brief Row @p r, or NULL where it is padding. */
MF_INLINE const int8_t *mf_map_row_or_null(const struct mf_map *map, int r)
{
	return (r < 0 || r >= map->height) ? NULL : mf_map_row(map, r);
}

/** @brief Rows @p first, @p first + @p step, ... (@p count of them); NULL where they are padding. */
MF_INLINE void mf_map_window(const struct mf_map *map, int first, int count, int step,
			     const int8_t **rows)
{
	for (int i = 0; i < count; i++) {
		rows[i] = mf_map_row_or_null(map, first + i * step);
	}
}

/**
 * @brief Row @p r of a window that slides over an endless tensor, or NULL where it is padding.
 *
 * @param base the window's first row in the tensor
 */
MF_INLINE const int8_t *mf_map_sliding_row(const struct mf_map *map, int base, int r)
{
	return (r < 0 || r >= map->height) ? NULL : mf_map_row(map, (r + base) % map->height);
}

/** @brief Rows @p first, @p first + @p step, ... of such a window. */
MF_INLINE void mf_map_sliding_window(const struct mf_map *map, int base, int first, int count,
				     int step, const int8_t **rows)
{
	for (int i = 0; i < count; i++) {
		rows[i] = mf_map_sliding_row(map, base, first + i * step);
	}
}

/** @brief The rows that a step reads and writes one after the other, in tensors that stand in memory as a whole. */
struct mf_rows {
	const uint8_t *in; /**< row 0 */
	uint8_t *out;      /**< row 0 */
	void *scratch;     /**< or state, or NULL */
	int32_t in_bytes;  /**< bytes of a row */
	int32_t out_bytes; /**< bytes of a row; 0 if all ticks write the same */
	int16_t ticks;
	int16_t in_height; /**< rows of the tensor */
	int16_t first;     /**< the first row that tick 0 reads */
	int16_t stride;    /**< from a tick's first row to the next one's */
	uint8_t count;     /**< rows that a tick reads */
	uint8_t step;      /**< from one of them to the next */
};

/** @brief The rows that tick @p y reads; NULL where they are padding. */
MF_UNUSED static void mf_rows_window(const struct mf_rows *rows, int y, const int8_t **in)
{
	int r = rows->stride * y + rows->first;

	for (int i = 0; i < rows->count; i++) {
		in[i] = r < 0 || r >= rows->in_height
				? NULL
				: (const int8_t *)rows->in + r * rows->in_bytes;
		r += rows->step;
	}
}

#endif /* MCUFUSE_MAP_H_ */
