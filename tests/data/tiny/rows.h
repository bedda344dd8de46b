/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef MCUFUSE_TEST_ROWS_H_
#define MCUFUSE_TEST_ROWS_H_

#include <mcufuse/mcufuse.h>

extern const struct mcufuse_model rows_model;

#endif /* MCUFUSE_TEST_ROWS_H_ */
