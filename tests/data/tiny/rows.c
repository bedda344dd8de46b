/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * A network that is fed by rows, written by hand in the shape of generated code: 6 rows of 5 x 2 int8
 * values; output y is the sum of rows 0 to y, modulo 256.
 */
#include "rows.h"

static uint8_t rows_arena[16] __attribute__((aligned(16)));
static uint16_t rows_fed;
static struct {
	int32_t sum;
	uint16_t row;
} rows_state;

static void rows_feed(const void *row)
{
	const int8_t *x = row;

	for (int i = 0; i < 10; i++) {
		rows_state.sum += x[i];
	}
	rows_arena[rows_state.row++] = (uint8_t)rows_state.sum;
}

static void rows_reset(void)
{
	rows_state.sum = 0;
	rows_state.row = 0U;
}

static void rows_s1_copy(void)
{
	for (int i = 0; i < 6; i++) {
		rows_arena[8 + i] = rows_arena[i];
	}
}

static const struct mcufuse_tensor rows_inputs[1] = {
	{.name = "x",
	 .dtype = MCUFUSE_S8,
	 .rank = 3,
	 .shape = {6, 5, 2},
	 .bytes = 60,
	 .scale = 1.0f},
};

static const struct mcufuse_tensor rows_outputs[1] = {
	{.name = "y",
	 .dtype = MCUFUSE_S8,
	 .rank = 1,
	 .shape = {6},
	 .offset = 8,
	 .bytes = 6,
	 .scale = 1.0f},
};

static const struct mcufuse_step rows_steps[2] = {
	{.name = "sum", .run = NULL, .macs = 60},
	{.name = "copy", .run = rows_s1_copy, .macs = 0},
};

const struct mcufuse_model rows_model = {
	.name = "rows",
	.arena = rows_arena,
	.arena_bytes = sizeof(rows_arena),
	.inputs = rows_inputs,
	.outputs = rows_outputs,
	.steps = rows_steps,
	.n_inputs = 1,
	.n_outputs = 1,
	.n_steps = 2,
	.input_rows = 6,
	.row_bytes = 10,
	.feed_row = rows_feed,
	.reset = rows_reset,
	.rows_fed = &rows_fed,
};
