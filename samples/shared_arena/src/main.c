/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Three networks take turns in one arena; each is held to its reference vectors.
 */
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <mcufuse/vectors.h>

#include "ic.h"
#include "ic_vectors.h"
#include "kws.h"
#include "kws_vectors.h"
#include "vww.h"
#include "vww_vectors.h"

static const struct mcufuse_vectors *const networks[] = {
	&kws_vectors,
	&ic_vectors,
	&vww_vectors,
};

int main(void)
{
	const uint8_t *arena = networks[0]->model->arena;
	bool passed = true;

	for (size_t i = 0; i < ARRAY_SIZE(networks); i++) {
		struct mcufuse_selftest_result result = {0};
		const struct mcufuse_model *m = networks[i]->model;
		const int err = mcufuse_selftest(networks[i], &result);

		printk("%s: self-test %s, %u of the arena's bytes\n", m->name,
		       err == 0 ? "passed" : "FAILED", m->arena_bytes);
		passed = passed && err == 0 && m->arena == arena;
	}
	printk("mcufuse: self-test %s\n", passed ? "passed" : "failed");
	return 0;
}
