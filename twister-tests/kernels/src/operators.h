/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#ifndef OPERATORS_H_
#define OPERATORS_H_

#include <mcufuse/vectors.h>

/** Run all cases of each model; fails the test at the first difference. */
void check_models(const struct mcufuse_vectors *const *models, size_t count);

#endif /* OPERATORS_H_ */
