/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The kernels on the target. generate.py writes the test cases, one for each operator.
 *
 * All models share one arena, which each case fills with another pattern first.
 */
#include <string.h>

#include <zephyr/ztest.h>

#include "operators.h"

void check_models(const struct mcufuse_vectors *const *models, size_t count)
{
	zassert_true(count > 0);
	for (size_t n = 0; n < count; n++) {
		const struct mcufuse_vectors *v = models[n];

		zassert_true(v->n_cases > 0);
		for (uint32_t i = 0; i < v->n_cases; i++) {
			struct mcufuse_selftest_result r = {0};

			zassert_ok(mcufuse_selftest_case(v, i, &r),
				   "%s: case %u, output %u, element %u: got %d, expected %d",
				   v->model->name, i, r.output, r.index, r.got, r.want);
		}
	}
}

ZTEST_SUITE(kernels, NULL, NULL, NULL, NULL, NULL);
