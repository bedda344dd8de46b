/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What a generated network offers to an application.
 *
 * C11, freestanding: nothing of libc beyond string.h, nothing of Zephyr.
 */
#ifndef MCUFUSE_MCUFUSE_H_
#define MCUFUSE_MCUFUSE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup mcufuse mcufuse
 * @brief Run a network that mcufuse generated.
 * @{
 */

/** Element type of an input or output. */
enum mcufuse_dtype {
	MCUFUSE_S8,
	MCUFUSE_U8,
	MCUFUSE_F32,
};

/** An input or output: real value = scale * (q - zero_point). */
struct mcufuse_tensor {
	const char *name;
	enum mcufuse_dtype dtype;
	uint8_t rank;
	uint16_t shape[4];  /**< @c rank entries, batch dimension left out, NHWC order */
	uint32_t offset;    /**< bytes from the start of the arena; unused when fed by rows */
	uint32_t bytes;     /**< size of the whole tensor */
	float scale;        /**< 1 for float tensors */
	int32_t zero_point; /**< 0 for float tensors */
};

/** One entry of the schedule: a step, or a stage of steps that run row by row. */
struct mcufuse_step {
	const char *name;
	void (*run)(void); /**< NULL for the stage that @c feed_row runs */
	uint32_t macs;     /**< multiply-accumulates of one inference (of a whole window) */
};

/** A generated network. All members are constant; the arena is the only memory it writes. */
struct mcufuse_model {
	const char *name;
	uint8_t *arena;
	uint32_t arena_bytes;
	const struct mcufuse_tensor *inputs;
	const struct mcufuse_tensor *outputs;
	const struct mcufuse_step *steps;
	uint16_t n_inputs;
	uint16_t n_outputs;
	uint16_t n_steps;
	uint16_t input_rows; /**< rows of input 0 when the caller feeds rows, else 0 */
	uint16_t hop_rows;   /**< rows to feed for the next inference; input_rows, or fewer */
	uint32_t row_bytes;  /**< bytes of one such row */
	/** Rows mode: consumes one row. NULL when the input is resident. */
	void (*feed_row)(const void *row);
	/** Rows mode: forgets the rows fed so far. NULL when the input is resident. */
	void (*reset)(void);
	/** Rows mode: rows fed since the last inference, counted here. NULL when the input is resident. */
	uint16_t *rows_fed;
	uint8_t hash[8]; /**< first bytes of the model file's SHA-256 */
};

/**
 * @brief Prepare a network: clears its state.
 *
 * @retval 0 ready
 * @retval -EINVAL @p m is NULL
 */
int mcufuse_init(const struct mcufuse_model *m);

/**
 * @brief Where to write input @p i (inside the arena), before every mcufuse_run(), which may overwrite it.
 *
 * @return NULL if there is no such input or the caller feeds it by rows.
 */
void *mcufuse_input(const struct mcufuse_model *m, unsigned int i);

/**
 * @brief Where output @p i stands (inside the arena) until the next write to an input.
 *
 * @return NULL if there is no such output.
 */
const void *mcufuse_output(const struct mcufuse_model *m, unsigned int i);

/**
 * @brief Run one inference.
 *
 * @retval 0 the outputs are ready
 * @retval -EINVAL @p m is NULL
 * @retval -EAGAIN rows mode: not all rows have been fed yet
 */
int mcufuse_run(const struct mcufuse_model *m);

/**
 * @brief Rows mode: feed the next @p n rows of input 0.
 *
 * After an inference the next one needs all rows again, or, if the network's windows slide
 * (@c hop_rows < @c input_rows), only the next @c hop_rows: the rest is kept.
 *
 * @retval 0 consumed; after the last row mcufuse_run() gives the outputs
 * @retval -ENOTSUP the network was generated with a resident input
 * @retval -EINVAL more rows than the input has, or a NULL pointer
 */
int mcufuse_feed_rows(const struct mcufuse_model *m, const void *rows, unsigned int n);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* MCUFUSE_MCUFUSE_H_ */
