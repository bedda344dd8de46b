/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * A network of two steps, written by hand in the shape of generated code: 64 int8 values, then
 * y[i] = clamp(x[i] * w[i % 16] / 8), then sums of 8 neighbours, clamped, into 8 values.
 *
 *   arena: | input 64 | scaled 64 |
 *          | output 8 |
 */
#include "tiny.h"

static uint8_t tiny_arena[128] __attribute__((aligned(16)));

static const int8_t tiny_weights[16] = {3, -7, 12, 9, -1, 8, 5, -16, 2, 11, -4, 6, 10, -9, 7, 1};

static int32_t clamp(int32_t v)
{
	return v < -128 ? -128 : (v > 127 ? 127 : v);
}

static void tiny_s0_scale(void)
{
	const int8_t *x = (const int8_t *)tiny_arena;
	int8_t *y = (int8_t *)tiny_arena + 64;

	for (int i = 0; i < 64; i++) {
		y[i] = (int8_t)clamp((x[i] * tiny_weights[i % 16]) >> 3);
	}
}

static void tiny_s1_sum(void)
{
	const int8_t *x = (const int8_t *)tiny_arena + 64;
	int8_t *y = (int8_t *)tiny_arena;

	for (int i = 0; i < 8; i++) {
		int32_t sum = 0;

		for (int k = 0; k < 8; k++) {
			sum += x[8 * i + k];
		}
		y[i] = (int8_t)clamp(sum);
	}
}

static const struct mcufuse_tensor tiny_inputs[1] = {
	{.name = "x",
	 .dtype = MCUFUSE_S8,
	 .rank = 3,
	 .shape = {4, 4, 4},
	 .offset = 0,
	 .bytes = 64,
	 .scale = 0.5f,
	 .zero_point = 0},
};

static const struct mcufuse_tensor tiny_outputs[1] = {
	{.name = "y",
	 .dtype = MCUFUSE_S8,
	 .rank = 1,
	 .shape = {8},
	 .offset = 0,
	 .bytes = 8,
	 .scale = 0.5f,
	 .zero_point = 0},
};

static const struct mcufuse_step tiny_steps[2] = {
	{.name = "scale", .run = tiny_s0_scale, .macs = 64},
	{.name = "sum", .run = tiny_s1_sum, .macs = 0},
};

const struct mcufuse_model tiny_model = {
	.name = "tiny",
	.arena = tiny_arena,
	.arena_bytes = sizeof(tiny_arena),
	.inputs = tiny_inputs,
	.outputs = tiny_outputs,
	.steps = tiny_steps,
	.n_inputs = 1,
	.n_outputs = 1,
	.n_steps = 2,
};
