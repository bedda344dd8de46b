/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <mcufuse/vectors.h>

#include "kws_vectors.h"

int main(void)
{
	struct mcufuse_selftest_result result;

	printk("arena at 0x%08lx\n", (unsigned long)kws_vectors.model->arena);
	if (mcufuse_selftest(&kws_vectors, &result) == 0 && result.cases_run > 0) {
		printk("mcufuse: self-test passed\n");
	} else {
		printk("mcufuse: self-test failed: %u of %u vectors\n", result.cases_failed,
		       result.cases_run);
	}
	return 0;
}
