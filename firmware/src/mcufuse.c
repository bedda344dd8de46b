/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs the schedule of a generated network; everything else is in the generated code.
 */
#include <errno.h>

#include <mcufuse/mcufuse.h>

int mcufuse_init(const struct mcufuse_model *m)
{
	if (m == NULL) {
		return -EINVAL;
	}
	if (m->rows_fed != NULL) {
		*m->rows_fed = 0U;
	}
	if (m->reset != NULL) {
		m->reset();
	}
	return 0;
}

void *mcufuse_input(const struct mcufuse_model *m, unsigned int i)
{
	if (m == NULL || i >= m->n_inputs || (i == 0U && m->feed_row != NULL)) {
		return NULL;
	}
	return m->arena + m->inputs[i].offset;
}

const void *mcufuse_output(const struct mcufuse_model *m, unsigned int i)
{
	if (m == NULL || i >= m->n_outputs) {
		return NULL;
	}
	return m->arena + m->outputs[i].offset;
}

int mcufuse_run(const struct mcufuse_model *m)
{
	if (m == NULL) {
		return -EINVAL;
	}
	if (m->feed_row != NULL && *m->rows_fed != m->input_rows) {
		return -EAGAIN;
	}
	for (unsigned int i = 0; i < m->n_steps; i++) {
		if (m->steps[i].run != NULL) {
			m->steps[i].run();
		}
	}
	if (m->feed_row != NULL) {
		*m->rows_fed = m->input_rows - m->hop_rows;
	}
	return 0;
}

int mcufuse_feed_rows(const struct mcufuse_model *m, const void *rows, unsigned int n)
{
	const uint8_t *row = rows;

	if (m == NULL || rows == NULL) {
		return -EINVAL;
	}
	if (m->feed_row == NULL) {
		return -ENOTSUP;
	}
	if (n > (unsigned int)m->input_rows - *m->rows_fed) {
		return -EINVAL;
	}
	for (unsigned int i = 0; i < n; i++, row += m->row_bytes) {
		if (*m->rows_fed == 0U) {
			/* Only now: until here the last outputs had to stand. */
			m->reset();
		}
		m->feed_row(row);
		(*m->rows_fed)++;
	}
	return 0;
}
