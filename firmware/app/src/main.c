/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs a network on its reference vectors and says whether every bit is right.
 *
 * The last line is what twister, `west mcufuse run` and a person at a console look for.
 */
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <mcufuse/vectors.h>

#include NETWORK_H /* from CMakeLists.txt, as is NETWORK, the name of the network */
#include NETWORK_VECTORS_H
#include NETWORK_STACK_H

#ifdef CONFIG_MCUFUSE_PROFILE
#include <mcufuse/profile.h>
#endif

#define MODEL   UTIL_CAT(NETWORK, _model)
#define VECTORS UTIL_CAT(NETWORK, _vectors)

#define STACK_BYTES                                                                                \
	(MAX(NETWORK_STACK_BYTES, CONFIG_MCUFUSE_APP_STACK_CONSOLE) +                              \
	 CONFIG_MCUFUSE_APP_STACK_RESERVE)

static K_THREAD_STACK_DEFINE(network_stack, STACK_BYTES);
static struct k_thread network_thread;

static const char *const kinds[] = {"random", "extreme", "smooth", "stored"};

static uint32_t clock_cycles(void)
{
	return k_cycle_get_32();
}

static uint32_t run_vectors(const struct mcufuse_vectors *v)
{
	struct mcufuse_selftest_result result = {.clock = clock_cycles};
	uint32_t failed = 0;

	for (uint32_t i = 0; i < v->n_cases; i++) {
		const int err = mcufuse_selftest_case(v, i, &result);

		printk("mcufuse: %s: vector %u (%s): %s, %u cycles\n", v->model->name, i,
		       kinds[v->cases[i].kind], err == 0 ? "PASS" : "FAIL", result.elapsed);
		if (err != 0) {
			failed++;
			printk("mcufuse: error %d; first difference: vector %u, output %u, element "
			       "%u: got %d, expected %d\n",
			       err, result.case_index, result.output, result.index, result.got,
			       result.want);
		}
	}
	return failed;
}

static void print_memory(const struct mcufuse_model *m)
{
	size_t unused = 0;

	printk("mcufuse: arena %u B at %p\n", m->arena_bytes, (void *)m->arena);
	if (k_thread_stack_space_get(k_current_get(), &unused) == 0) {
		const unsigned int size = k_current_get()->stack_info.size;

		printk("mcufuse: stack %u of %u B used\n", size - (unsigned int)unused, size);
	}
}

#ifdef CONFIG_MCUFUSE_PROFILE
static uint32_t step_cycles[CONFIG_MCUFUSE_APP_PROFILE_STEPS];

static void print_profile(const struct mcufuse_model *m)
{
	if (m->n_steps > ARRAY_SIZE(step_cycles) || mcufuse_profile(m, step_cycles) != 0) {
		printk("mcufuse: no profile\n");
		return;
	}
	for (unsigned int i = 0; i < m->n_steps; i++) {
		printk("mcufuse: step %u %s cycles=%u macs=%u\n", i, m->steps[i].name,
		       step_cycles[i], m->steps[i].macs);
	}
}
#endif

static void run_network(void *unused1, void *unused2, void *unused3)
{
	const struct mcufuse_model *m = &MODEL;
	uint32_t failed;

	ARG_UNUSED(unused1);
	ARG_UNUSED(unused2);
	ARG_UNUSED(unused3);
	printk("mcufuse: %s on %s, %u vectors\n", m->name, CONFIG_BOARD_TARGET, VECTORS.n_cases);
	failed = run_vectors(&VECTORS);
	print_memory(m);
#ifdef CONFIG_MCUFUSE_PROFILE
	print_profile(m);
#endif
	if (failed == 0 && VECTORS.n_cases > 0) {
		printk("mcufuse: self-test passed\n");
	} else {
		printk("mcufuse: self-test failed: %u of %u vectors\n", failed, VECTORS.n_cases);
	}
}

int main(void)
{
	k_thread_create(&network_thread, network_stack, K_THREAD_STACK_SIZEOF(network_stack),
			run_network, NULL, NULL, NULL, K_PRIO_PREEMPT(0), K_FP_REGS, K_NO_WAIT);
	return 0;
}
