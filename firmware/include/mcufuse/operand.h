/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Operands of element-wise kernels: rows of an activation, or constants in flash.
 */
#ifndef MCUFUSE_OPERAND_H_
#define MCUFUSE_OPERAND_H_

#include <mcufuse/requant.h>

/** Words of the longest requantization entry. */
#define MF_OPERAND_ENTRY 3

/**
 * @brief Where a row's operand stands and how it is broadcast; compile-time constants.
 *
 * A row is walked as groups of elements. Broadcasting is a step of 0.
 */
struct mf_operand_cfg {
	bool constant; /**< stands in flash, not in @c in */
	int32_t row; /**< constant: bytes from one tick's row to the next, 0 if all rows are one */
	int32_t group; /**< bytes from a group's first element to the next group's */
	int32_t step;  /**< bytes from an element to the next of its group: 1 or 0 */
};

/** @brief First element of a tick's row; takes the next pointer of @p in for an activation. */
MF_INLINE const int8_t *mf_operand_row(const struct mf_operand_cfg *cfg, const int8_t *constant,
				       const int8_t *const **in, int tick)
{
	if (cfg->constant) {
		return constant + tick * cfg->row;
	}
	return *(*in)++;
}

/**
 * @brief Copies a requantization entry to a local array, which the compiler keeps in registers: a store
 * of int8 could change the table as far as it knows.
 */
MF_INLINE void mf_operand_entry(const struct mf_requant_cfg *rq, const int32_t *table,
				int32_t entry[MF_OPERAND_ENTRY])
{
	MF_UNROLL
	for (int i = 0; i < mf_requant_words(rq->mode); i++) {
		entry[i] = table[i];
	}
}

/** @brief The output for a value that was not accumulated from the entry's start. */
MF_INLINE int8_t mf_operand_requant(const struct mf_requant_cfg *rq, const int32_t *entry,
				    int32_t value)
{
	return (int8_t)mf_requant(rq, entry, value + mf_requant_start(rq, entry));
}

#endif /* MCUFUSE_OPERAND_H_ */
