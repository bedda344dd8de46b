/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Test inputs made from a seed, and a self-test of a network on the target.
 *
 * The host makes the same inputs (generator/mcufuse/vectors.py), so that firmware carries only seeds
 * and expected outputs. Every element is a function of its index: any part of an input can be made on
 * its own, which a network that is fed by rows needs.
 */
#ifndef MCUFUSE_VECTORS_H_
#define MCUFUSE_VECTORS_H_

#include <mcufuse/mcufuse.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup mcufuse_vectors mcufuse test vectors
 * @{
 */

/** How the elements of an input are made. */
enum mcufuse_vector_kind {
	MCUFUSE_VECTOR_RANDOM,  /**< independent, uniform over the whole range */
	MCUFUSE_VECTOR_EXTREME, /**< only the lowest and the highest value */
	MCUFUSE_VECTOR_SMOOTH, /**< changes slowly over rows and columns, each channel on its own */
	MCUFUSE_VECTOR_STORED, /**< given byte by byte */
};

/** One inference of the self-test. */
struct mcufuse_vector_case {
	uint8_t kind;            /**< enum mcufuse_vector_kind */
	int8_t exponent;         /**< float inputs lie in -2^exponent .. 2^exponent */
	uint32_t seed;           /**< unused when stored */
	const uint8_t *stored;   /**< all inputs, one after another; NULL unless stored */
	const uint8_t *expected; /**< all outputs, one after another */
};

/** A network and the cases to run on it. */
struct mcufuse_vectors {
	const struct mcufuse_model *model;
	const struct mcufuse_vector_case *cases;
	uint32_t n_cases;
	/** Rows mode: room for one row, aligned to 4. NULL when the input is resident. */
	uint8_t *row;
};

/** What a self-test found. */
struct mcufuse_selftest_result {
	uint32_t cases_run;
	uint32_t cases_failed;
	/* The first difference: */
	uint32_t case_index;
	uint32_t output;
	uint32_t index; /**< of the element within the output */
	int32_t got;    /**< for float outputs the bit pattern */
	int32_t want;
	/** In, for mcufuse_selftest_case(): a counter that runs, or NULL. */
	uint32_t (*clock)(void);
	/** Out: what the counter gained in mcufuse_feed_rows() and mcufuse_run() of the last case. */
	uint32_t elapsed;
};

/**
 * @brief Make elements @p first to @p first + @p count - 1 of an input.
 *
 * @param to    the first of these elements; aligned to the element type
 * @param kind  anything but MCUFUSE_VECTOR_STORED
 * @param input number of the input, so that inputs of one case differ
 */
void mcufuse_vectors_fill(void *to, const struct mcufuse_tensor *tensor, unsigned int input,
			  enum mcufuse_vector_kind kind, uint32_t seed, int exponent,
			  uint32_t first, uint32_t count);

/**
 * @brief Run one case: poison the arena, make the inputs, run, compare.
 *
 * Counts in @p r, and notes the difference if it is the first one there.
 *
 * @retval 0 the outputs are as expected
 * @retval -EBADMSG they are not
 * @retval -EINVAL there is no such case, or no room for a row that must be fed
 * @return another negative value that mcufuse_init(), mcufuse_feed_rows() or mcufuse_run() gave
 */
int mcufuse_selftest_case(const struct mcufuse_vectors *v, uint32_t i,
			  struct mcufuse_selftest_result *r);

/**
 * @brief Run all cases.
 *
 * @param r set in any case; nothing is timed
 *
 * @retval 0 all outputs are as expected
 * @retval -EBADMSG some are not; @p r tells the first difference
 * @return another negative value when a case could not be run, which ends the test
 */
int mcufuse_selftest(const struct mcufuse_vectors *v, struct mcufuse_selftest_result *r);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* MCUFUSE_VECTORS_H_ */
