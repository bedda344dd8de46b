/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Test inputs from seeds and the self-test. generator/mcufuse/vectors.py makes the same bits.
 *
 * Element i of an input is made from level(i), a number of 0 to 255 (RANDOM, float: 0 to 65535):
 *
 *   RANDOM   the high bits of hash(key, i)
 *   EXTREME  all bits equal to the highest bit of hash(key, i)
 *   SMOOTH   a lattice of random levels, 8 rows and 8 columns apart, with bilinear interpolation
 *
 * hash() is the finalizer of MurmurHash3 (Austin Appleby, public domain) over key + i * step.
 */
#include <errno.h>
#include <string.h>

#include <mcufuse/vectors.h>

#define HASH_STEP   0x9e3779b9U /* 2^32 / golden ratio */
#define INPUT_STEP  0x85ebca77U
#define CELL_SHIFT  3U
#define CELL        (1U << CELL_SHIFT)
#define CELL_MASK   (CELL - 1U)
#define POISON      0xa5U
#define POISON_STEP 0x3bU

/* A tensor as rows, columns and channels. */
struct grid {
	uint32_t cols;
	uint32_t channels;
	uint32_t lattice_cols;
};

static uint32_t mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x85ebca6bU;
	x ^= x >> 13;
	x *= 0xc2b2ae35U;
	x ^= x >> 16;
	return x;
}

static uint32_t hash(uint32_t key, uint32_t i)
{
	return mix(key + i * HASH_STEP);
}

static struct grid grid_of(const struct mcufuse_tensor *tensor)
{
	struct grid g = {1U, 1U, 0U};

	if (tensor->rank >= 3U) {
		g.channels = tensor->shape[tensor->rank - 1U];
		g.cols = tensor->shape[tensor->rank - 2U];
	} else if (tensor->rank >= 1U) {
		g.cols = tensor->shape[tensor->rank - 1U];
	}
	g.lattice_cols = (g.cols >> CELL_SHIFT) + 2U;
	return g;
}

static uint32_t lattice(uint32_t key, const struct grid *g, uint32_t y, uint32_t x, uint32_t c)
{
	return hash(key, (y * g->lattice_cols + x) * g->channels + c) >> 24;
}

static uint32_t smooth(uint32_t key, const struct grid *g, uint32_t y, uint32_t x, uint32_t c)
{
	const uint32_t cy = y >> CELL_SHIFT;
	const uint32_t cx = x >> CELL_SHIFT;
	const uint32_t ty = y & CELL_MASK;
	const uint32_t tx = x & CELL_MASK;
	const uint32_t upper =
		lattice(key, g, cy, cx, c) * (CELL - tx) + lattice(key, g, cy, cx + 1U, c) * tx;
	const uint32_t lower = lattice(key, g, cy + 1U, cx, c) * (CELL - tx) +
			       lattice(key, g, cy + 1U, cx + 1U, c) * tx;

	return (upper * (CELL - ty) + lower * ty + CELL * CELL / 2U) >> (2U * CELL_SHIFT);
}

/* 2^exponent * fraction / 2^15 with |fraction| <= 2^15, exact in a float. */
static float scaled(int32_t fraction, int exponent)
{
	const uint32_t power = (uint32_t)(127 + exponent - 15) << 23;
	float unit;

	memcpy(&unit, &power, sizeof(unit));
	return (float)fraction * unit;
}

static void put(void *to, uint32_t at, enum mcufuse_dtype dtype, uint32_t level, int exponent)
{
	switch (dtype) {
	case MCUFUSE_S8:
		((int8_t *)to)[at] = (int8_t)((int32_t)level - 128);
		break;
	case MCUFUSE_U8:
		((uint8_t *)to)[at] = (uint8_t)level;
		break;
	case MCUFUSE_F32:
		((float *)to)[at] = scaled((int32_t)level - 32768, exponent);
		break;
	}
}

void mcufuse_vectors_fill(void *to, const struct mcufuse_tensor *tensor, unsigned int input,
			  enum mcufuse_vector_kind kind, uint32_t seed, int exponent,
			  uint32_t first, uint32_t count)
{
	const uint32_t key = mix(seed + (uint32_t)input * INPUT_STEP);
	const int is_float = tensor->dtype == MCUFUSE_F32;
	const struct grid g = grid_of(tensor);
	uint32_t c = first % g.channels;
	uint32_t x = first / g.channels % g.cols;
	uint32_t y = first / g.channels / g.cols;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t level = 0U;

		if (kind == MCUFUSE_VECTOR_SMOOTH) {
			level = smooth(key, &g, y, x, c) << (is_float ? 8U : 0U);
			if (++c == g.channels) {
				c = 0U;
				if (++x == g.cols) {
					x = 0U;
					y++;
				}
			}
		} else {
			level = hash(key, first + i);
			if (kind == MCUFUSE_VECTOR_RANDOM) {
				level >>= is_float ? 16U : 24U;
			} else if ((level >> 31) == 0U) {
				level = 0U;
			} else {
				level = is_float ? 65536U : 255U;
			}
		}
		put(to, i, tensor->dtype, level, exponent);
	}
}

static uint32_t element_bytes(const struct mcufuse_tensor *tensor)
{
	return tensor->dtype == MCUFUSE_F32 ? 4U : 1U;
}

/* Bytes from..from + bytes - 1 of one input; `stored` is where this input is stored, if it is. */
static void make(void *to, const struct mcufuse_vectors *v, unsigned int input,
		 const struct mcufuse_vector_case *c, const uint8_t *stored, uint32_t from,
		 uint32_t bytes)
{
	const struct mcufuse_tensor *tensor = &v->model->inputs[input];

	if (c->kind == (uint8_t)MCUFUSE_VECTOR_STORED) {
		memcpy(to, stored + from, bytes);
	} else {
		const uint32_t each = element_bytes(tensor);

		mcufuse_vectors_fill(to, tensor, input, (enum mcufuse_vector_kind)c->kind, c->seed,
				     c->exponent, from / each, bytes / each);
	}
}

static uint32_t now(const struct mcufuse_selftest_result *r)
{
	return r->clock != NULL ? r->clock() : 0U;
}

static int feed(const struct mcufuse_vectors *v, const struct mcufuse_vector_case *c,
		struct mcufuse_selftest_result *r)
{
	const struct mcufuse_model *m = v->model;

	for (uint32_t y = 0; y < m->input_rows; y++) {
		uint32_t start;
		int err;

		make(v->row, v, 0U, c, c->stored, y * m->row_bytes, m->row_bytes);
		start = now(r);
		err = mcufuse_feed_rows(m, v->row, 1U);
		r->elapsed += now(r) - start;
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

static int run(const struct mcufuse_vectors *v, const struct mcufuse_vector_case *c, uint32_t i,
	       struct mcufuse_selftest_result *r)
{
	const struct mcufuse_model *m = v->model;
	const uint8_t *stored = c->stored;
	uint32_t start;
	int err;

	if (m->feed_row != NULL && v->row == NULL) {
		return -EINVAL;
	}
	/* What an earlier inference left must not help, nor the value that an empty memory has. */
	memset(m->arena, (int)(POISON ^ (i * POISON_STEP & 0xffU)), m->arena_bytes);
	err = mcufuse_init(m);
	for (unsigned int n = 0; err == 0 && n < m->n_inputs; n++) {
		void *to = mcufuse_input(m, n);

		if (to != NULL) {
			make(to, v, n, c, stored, 0U, m->inputs[n].bytes);
		}
		if (stored != NULL) {
			stored += m->inputs[n].bytes;
		}
	}
	if (err == 0 && m->feed_row != NULL) {
		err = feed(v, c, r);
	}
	if (err != 0) {
		return err;
	}
	start = now(r);
	err = mcufuse_run(m);
	r->elapsed += now(r) - start;
	return err;
}

static int32_t element(const uint8_t *data, const struct mcufuse_tensor *tensor, uint32_t i)
{
	int32_t value;

	switch (tensor->dtype) {
	case MCUFUSE_S8:
		return (int8_t)data[i];
	case MCUFUSE_U8:
		return data[i];
	default:
		memcpy(&value, data + 4U * i, sizeof(value));
		return value;
	}
}

/* 0, or -EBADMSG with the first difference in r. */
static int compare(const struct mcufuse_model *m, const uint8_t *expected,
		   struct mcufuse_selftest_result *r)
{
	for (unsigned int o = 0; o < m->n_outputs; o++) {
		const struct mcufuse_tensor *tensor = &m->outputs[o];
		const uint8_t *got = mcufuse_output(m, o);

		for (uint32_t i = 0; i < tensor->bytes / element_bytes(tensor); i++) {
			r->got = element(got, tensor, i);
			r->want = element(expected, tensor, i);
			if (r->got != r->want) {
				r->output = o;
				r->index = i;
				return -EBADMSG;
			}
		}
		expected += tensor->bytes;
	}
	return 0;
}

int mcufuse_selftest_case(const struct mcufuse_vectors *v, uint32_t i,
			  struct mcufuse_selftest_result *r)
{
	struct mcufuse_selftest_result found = {0};
	int err;

	if (v == NULL || r == NULL || i >= v->n_cases) {
		return -EINVAL;
	}
	r->elapsed = 0U;
	err = run(v, &v->cases[i], i, r);
	if (err != 0) {
		return err;
	}
	r->cases_run++;
	err = compare(v->model, v->cases[i].expected, &found);
	if (err != 0 && r->cases_failed++ == 0U) {
		r->case_index = i;
		r->output = found.output;
		r->index = found.index;
		r->got = found.got;
		r->want = found.want;
	}
	return err;
}

int mcufuse_selftest(const struct mcufuse_vectors *v, struct mcufuse_selftest_result *r)
{
	int result = 0;

	if (v == NULL || r == NULL) {
		return -EINVAL;
	}
	memset(r, 0, sizeof(*r));
	for (uint32_t i = 0; i < v->n_cases; i++) {
		const int err = mcufuse_selftest_case(v, i, r);

		if (err != 0 && err != -EBADMSG) {
			return err;
		}
		if (err != 0) {
			result = err;
		}
	}
	return result;
}
