/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <mcufuse/vectors.h>

#include "ic_vectors.h"
#include "kws_vectors.h"

static void verify(const struct mcufuse_vectors *v)
{
	struct mcufuse_selftest_result r;

	(void)mcufuse_selftest(v, &r);
	printk("%s: %u of %u vectors right\n", v->model->name, r.cases_run - r.cases_failed,
	       v->n_cases);
}

int main(void)
{
	const struct mcufuse_model *kws = kws_vectors.model;
	const struct mcufuse_model *ic = ic_vectors.model;

	verify(&kws_vectors);
	verify(&ic_vectors);
	if (kws->arena == ic->arena) {
		printk("one arena of %u bytes\n", MAX(kws->arena_bytes, ic->arena_bytes));
	}
	return 0;
}
