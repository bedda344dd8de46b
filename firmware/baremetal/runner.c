/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs one network over the inputs of a host file and hands back what it computed.
 *
 * The host writes request.bin: the words of struct mf_request, then for each inference the bytes of
 * all inputs. A profiled inference comes first when asked for, with an input of its own. The answer
 * is outputs.bin, the bytes of all outputs of each inference, and result.bin: struct mf_result, then
 * the differences of the counter and of the slow counter, two words for each call: the three
 * calibration calls, the steps of the profiled inference, and the calls of each inference.
 * generator/mcufuse/baremetal.py is the other side.
 */
#include <string.h>

#include <mcufuse/mcufuse.h>

#include "counter.h"
#include "semihost.h"

#include MF_MODEL_HEADER

#define MF_REQUEST_MAGIC 0x3151464dU /* "MFQ1" */
#define MF_RESULT_MAGIC  0x3152464dU /* "MFR1" */

#define MF_INFER_STACK_BYTES 0x10000U
#define MF_STACK_PAINT       0x5afe57acU
#define MF_GUARD_BYTE        0xc3U
#define MF_GUARD_GAP_MAX     16U
#define MF_CALIBRATE_SHORT   100U
#define MF_CALIBRATE_LONG    1100U

struct mf_request {
	uint32_t magic;
	uint32_t n_cases;
	uint32_t profile; /**< 1: a profiled inference comes first */
};

struct mf_result {
	uint32_t magic;
	uint32_t n_calls; /**< counted calls of each inference */
	uint32_t n_steps; /**< 0 unless profiled */
	uint32_t stack_bytes;
	uint32_t stack_room;
	uint32_t guards;        /**< bit 0: there is one below the arena, bit 1: above */
	uint32_t guards_broken; /**< same bits */
};

extern uint8_t mf_guard_low[], mf_guard_high[], MF_GUARD_BYTES[];
extern uint8_t mf_free_start[], mf_free_end[];

static const struct mcufuse_model *const model = &MF_MODEL;
static uint32_t infer_stack[MF_INFER_STACK_BYTES / 4U] __attribute__((aligned(8)));
static struct mf_result result;
static uint8_t *row;    /* rows mode: one row */
static uint32_t *ticks; /* counter differences, as many as the free memory takes */
static uint32_t n_ticks;

__attribute__((noreturn)) static void fail(const char *what)
{
	mf_semihost_text("mcufuse-error ");
	mf_semihost_text(what);
	mf_semihost_text("\n");
	mf_semihost_exit(MF_EXIT_MODEL);
}

/* Calls fn(a, b, c) on the painted stack, notes the time, gives back what it returned. */
static int counted(uintptr_t fn, uintptr_t a, uintptr_t b, uintptr_t c)
{
	const uintptr_t args[3] = {a, b, c};
	struct mf_counted got;
	uint32_t slow;

	if ((uintptr_t)&ticks[n_ticks + 2U] > (uintptr_t)mf_free_end) {
		fail("no memory left for the counter values");
	}
	slow = mf_counter_slow();
	mf_call_counted(fn, args, &infer_stack[MF_INFER_STACK_BYTES / 4U], &got);
	slow = mf_counter_slow() - slow;
	ticks[n_ticks++] = MF_COUNTER_DOWN ? got.start - got.end : got.end - got.start;
	ticks[n_ticks++] = slow;
	return (int)got.result;
}

static void guards_set(void)
{
	uint8_t *const arena_end = model->arena + model->arena_bytes;
	const uintptr_t below = (uintptr_t)model->arena - (uintptr_t)mf_guard_low;
	const uintptr_t above = (uintptr_t)mf_guard_high - (uintptr_t)arena_end;

	if (below - (uintptr_t)MF_GUARD_BYTES < MF_GUARD_GAP_MAX) {
		result.guards |= 1U;
		memset(mf_guard_low, MF_GUARD_BYTE, below);
	}
	if (above < MF_GUARD_GAP_MAX) {
		result.guards |= 2U;
		memset(arena_end, MF_GUARD_BYTE, above + (uintptr_t)MF_GUARD_BYTES);
	}
}

static int guard_broken(const uint8_t *from, const uint8_t *to)
{
	for (; from != to; from++) {
		if (*from != MF_GUARD_BYTE) {
			return 1;
		}
	}
	return 0;
}

static void guards_check(void)
{
	if ((result.guards & 1U) != 0U && guard_broken(mf_guard_low, model->arena)) {
		result.guards_broken |= 1U;
	}
	if ((result.guards & 2U) != 0U && guard_broken(model->arena + model->arena_bytes,
						       mf_guard_high + (uintptr_t)MF_GUARD_BYTES)) {
		result.guards_broken |= 2U;
	}
}

static void stack_paint(void)
{
	for (unsigned int i = 0; i < MF_INFER_STACK_BYTES / 4U; i++) {
		infer_stack[i] = MF_STACK_PAINT;
	}
}

static uint32_t stack_used(void)
{
	unsigned int i = 0;

	while (i < MF_INFER_STACK_BYTES / 4U && infer_stack[i] == MF_STACK_PAINT) {
		i++;
	}
	return MF_INFER_STACK_BYTES - 4U * i;
}

/* Poisons the arena, so that nothing of an earlier inference can help, and reads the inputs. */
static void prepare(int request, unsigned int number)
{
	memset(model->arena, (int)(0xa5U ^ (number * 0x3bU)), model->arena_bytes);
	if (mcufuse_init(model) != 0) {
		fail("mcufuse_init() refused the network");
	}
	for (unsigned int i = model->feed_row != NULL ? 1U : 0U; i < model->n_inputs; i++) {
		mf_semihost_read(request, mcufuse_input(model, i), model->inputs[i].bytes);
	}
}

/* Rows mode: the rows of input 0 follow the other inputs in the request. */
static void feed(int request)
{
	for (unsigned int i = 0; i < model->input_rows; i++) {
		mf_semihost_read(request, row, model->row_bytes);
		if (counted((uintptr_t)mcufuse_feed_rows, (uintptr_t)model, (uintptr_t)row, 1U) !=
		    0) {
			fail("mcufuse_feed_rows() did not take a row");
		}
	}
}

static void hand_back(int outputs)
{
	for (unsigned int i = 0; i < model->n_outputs; i++) {
		mf_semihost_write(outputs, mcufuse_output(model, i), model->outputs[i].bytes);
	}
}

static void run_profiled(int request, int outputs)
{
	prepare(request, 0U);
	if (model->feed_row != NULL) {
		const uint32_t n = n_ticks;

		feed(request);
		n_ticks = n; /* the calls of an ordinary inference tell the same */
	}
	for (unsigned int i = 0; i < model->n_steps; i++) {
		const uintptr_t run = (uintptr_t)model->steps[i].run;

		(void)counted(run != 0U ? run : (uintptr_t)mf_empty, 0U, 0U, 0U);
	}
	hand_back(outputs);
	guards_check();
}

static void run_case(int request, int outputs, unsigned int number)
{
	prepare(request, number);
	if (model->feed_row != NULL) {
		feed(request);
	}
	if (counted((uintptr_t)mcufuse_run, (uintptr_t)model, 0U, 0U) != 0) {
		fail("mcufuse_run() failed");
	}
	hand_back(outputs);
	guards_check();
}

static void calibrate(void)
{
	(void)counted((uintptr_t)mf_empty, 0U, 0U, 0U);
	(void)counted((uintptr_t)mf_loop, MF_CALIBRATE_SHORT, 0U, 0U);
	(void)counted((uintptr_t)mf_loop, MF_CALIBRATE_LONG, 0U, 0U);
}

static int open_host(const char *path, enum mf_semihost_mode mode)
{
	const int handle = mf_semihost_open(path, mode);

	if (handle < 0) {
		mf_semihost_text("mcufuse-error cannot open ");
		mf_semihost_text(path);
		mf_semihost_text("\n");
		mf_semihost_exit(MF_EXIT_HOST);
	}
	return handle;
}

int main(void)
{
	const int request = open_host("request.bin", MF_SEMIHOST_READ);
	const int outputs = open_host("outputs.bin", MF_SEMIHOST_WRITE);
	struct mf_request asked;
	int answer;

	mf_semihost_read(request, &asked, sizeof(asked));
	if (asked.magic != MF_REQUEST_MAGIC) {
		fail("request.bin is of another version");
	}
	row = mf_free_start;
	ticks = (uint32_t *)(mf_free_start + (model->row_bytes + 15U) / 16U * 16U);

	mf_counter_start();
	calibrate();
	guards_set();
	stack_paint();
	if (asked.profile != 0U) {
		run_profiled(request, outputs);
		result.n_steps = model->n_steps;
	}
	for (unsigned int i = 0; i < asked.n_cases; i++) {
		run_case(request, outputs, i + 1U);
	}

	result.magic = MF_RESULT_MAGIC;
	result.n_calls = (model->feed_row != NULL ? model->input_rows : 0U) + 1U;
	result.stack_bytes = stack_used();
	result.stack_room = MF_INFER_STACK_BYTES;
	answer = open_host("result.bin", MF_SEMIHOST_WRITE);
	mf_semihost_write(answer, &result, sizeof(result));
	mf_semihost_write(answer, ticks, n_ticks * sizeof(*ticks));
	if (mf_semihost_close(answer) != 0 || mf_semihost_close(outputs) != 0) {
		mf_semihost_exit(MF_EXIT_HOST);
	}
	return 0;
}
