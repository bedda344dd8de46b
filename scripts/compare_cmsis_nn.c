/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs the CMSIS-NN function of each layer twice and counts the instructions of the second call.
 *
 * layers.h, written by compare_cmsis_nn.py, holds the layers. The answer is outputs.bin, the output of
 * each layer, and result.bin, words: the differences of the counter and of the slow counter for the
 * three calibration calls and for each layer, then for each layer its status and its bytes of scratch.
 */
#include <arm_nnfunctions.h>

#include "counter.h"
#include "semihost.h"

#define STACK_BYTES 0x10000U

/** A layer. With `prepare` it does what TFLite Micro does once, before the first inference. */
struct layer {
	int32_t (*run)(int prepare); /**< status of CMSIS-NN */
	uint32_t output_bytes;
};

extern uint8_t mf_free_start[], mf_free_end[];
extern const uint8_t blob[]; /* weights, quantization and inputs */

static cmsis_nn_context scratch;

static void set_scratch(int32_t bytes)
{
	if (bytes < 0 || bytes > mf_free_end - mf_free_start) {
		mf_semihost_text("mcufuse-error no memory left for the scratch buffer\n");
		mf_semihost_exit(MF_EXIT_MODEL);
	}
	scratch.buf = mf_free_start;
	scratch.size = bytes;
}

#include "layers.h"

static uint32_t stack[STACK_BYTES / 4U] __attribute__((aligned(8)));
static uint32_t ticks[3U + N_LAYERS][2];
static int32_t facts[N_LAYERS][2];

static int32_t counted(uintptr_t fn, uintptr_t a, uint32_t to[2])
{
	const uintptr_t args[3] = {a, 0U, 0U};
	const uint32_t slow = mf_counter_slow();
	struct mf_counted got;

	mf_call_counted(fn, args, &stack[STACK_BYTES / 4U], &got);
	to[1] = mf_counter_slow() - slow;
	to[0] = MF_COUNTER_DOWN ? got.start - got.end : got.end - got.start;
	return got.result;
}

int main(void)
{
	const int outputs = mf_semihost_open("outputs.bin", MF_SEMIHOST_WRITE);
	const int answer = mf_semihost_open("result.bin", MF_SEMIHOST_WRITE);

	if (outputs < 0 || answer < 0) {
		mf_semihost_exit(MF_EXIT_HOST);
	}
	mf_counter_start();
	(void)counted((uintptr_t)mf_empty, 0U, ticks[0]);
	(void)counted((uintptr_t)mf_loop, 100U, ticks[1]);
	(void)counted((uintptr_t)mf_loop, 1100U, ticks[2]);
	for (unsigned int i = 0; i < N_LAYERS; i++) {
		(void)layers[i].run(1);
		(void)layers[i].run(0);
		memset(output, 0, layers[i].output_bytes);
		facts[i][0] = counted((uintptr_t)layers[i].run, 0U, ticks[3U + i]);
		facts[i][1] = scratch.size;
		mf_semihost_write(outputs, output, layers[i].output_bytes);
	}
	mf_semihost_write(answer, ticks, sizeof(ticks));
	mf_semihost_write(answer, facts, sizeof(facts));
	if (mf_semihost_close(answer) != 0 || mf_semihost_close(outputs) != 0) {
		mf_semihost_exit(MF_EXIT_HOST);
	}
	return 0;
}
