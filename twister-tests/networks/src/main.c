/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Whole networks on the target: every output bit, nothing written outside the arena, and no
 *        dependence on what the arena held before.
 */
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <mcufuse/vectors.h>

#ifdef HAS_KWS
#include "kws_vectors.h"
#endif
#ifdef HAS_IC
#include "ic_vectors.h"
#endif
#ifdef HAS_VWW
#include "vww_vectors.h"
#endif
#ifdef HAS_AD
#include "ad_vectors.h"
#endif
#ifdef HAS_SWW
#include "sww_vectors.h"
#endif

#define GUARD_BYTES 64
#define GUARD       0x5c

/* guards.ld */
#define GUARDS(name)                                                                               \
	extern uint8_t guard_before_##name[GUARD_BYTES];                                           \
	extern uint8_t guard_after_##name[GUARD_BYTES]

GUARDS(kws);
GUARDS(ic);
GUARDS(vww);
GUARDS(ad);
GUARDS(sww);

struct network {
	const struct mcufuse_vectors *vectors;
	uint8_t *before;
	uint8_t *after;
};

#define NETWORK(name) {&name##_vectors, guard_before_##name, guard_after_##name}

static void assert_guard(const uint8_t *guard, const char *where)
{
	for (int i = 0; i < GUARD_BYTES; i++) {
		zassert_equal(guard[i], GUARD, "byte %d %s the arena was overwritten", i, where);
	}
}

static void check(const struct network *n)
{
	const struct mcufuse_vectors *v = n->vectors;
	struct mcufuse_selftest_result r;

	zassert_true(n->before + GUARD_BYTES <= v->model->arena, "arena outside its guards");
	zassert_true(v->model->arena + v->model->arena_bytes <= n->after,
		     "arena outside its guards");
	zassert_true(v->n_cases > 0);

	/* Each case fills the arena with another pattern before it starts. */
	for (uint32_t i = 0; i < v->n_cases; i++) {
		memset(&r, 0, sizeof(r));
		memset(n->before, GUARD, GUARD_BYTES);
		memset(n->after, GUARD, GUARD_BYTES);
		zassert_ok(mcufuse_selftest_case(v, i, &r),
			   "%s: case %u, output %u, element %u: got %d, expected %d",
			   v->model->name, i, r.output, r.index, r.got, r.want);
		assert_guard(n->before, "before");
		assert_guard(n->after, "behind");
	}
}

/* The same inputs over two different fillings of the arena must give the same outputs. */
static void check_poison(const struct network *n)
{
	const struct mcufuse_vectors *v = n->vectors;
	const struct mcufuse_vector_case twice[] = {v->cases[0], v->cases[0], v->cases[0]};
	const struct mcufuse_vectors same = {
		.model = v->model, .cases = twice, .n_cases = ARRAY_SIZE(twice), .row = v->row};
	struct mcufuse_selftest_result r;

	zassert_ok(mcufuse_selftest(&same, &r));
	zassert_equal(r.cases_run, ARRAY_SIZE(twice));
}

ZTEST(networks, test_kws)
{
#ifdef HAS_KWS
	check(&(struct network)NETWORK(kws));
	check_poison(&(struct network)NETWORK(kws));
#else
	ztest_test_skip();
#endif
}

ZTEST(networks, test_ic)
{
#ifdef HAS_IC
	check(&(struct network)NETWORK(ic));
	check_poison(&(struct network)NETWORK(ic));
#else
	ztest_test_skip();
#endif
}

ZTEST(networks, test_vww)
{
#ifdef HAS_VWW
	check(&(struct network)NETWORK(vww));
	check_poison(&(struct network)NETWORK(vww));
#else
	ztest_test_skip();
#endif
}

ZTEST(networks, test_ad)
{
#ifdef HAS_AD
	check(&(struct network)NETWORK(ad));
	check_poison(&(struct network)NETWORK(ad));
#else
	ztest_test_skip();
#endif
}

ZTEST(networks, test_sww)
{
#ifdef HAS_SWW
	check(&(struct network)NETWORK(sww));
	check_poison(&(struct network)NETWORK(sww));
#else
	ztest_test_skip();
#endif
}

/* A self-test that cannot fail proves nothing: a wrong expectation must be found. */
ZTEST(networks, test_selftest_finds_a_difference)
{
#ifdef HAS_KWS
	const struct mcufuse_vectors *v = &kws_vectors;
	static uint8_t wrong[64];
	struct mcufuse_vector_case one = v->cases[0];
	const struct mcufuse_vectors bad = {
		.model = v->model, .cases = &one, .n_cases = 1, .row = v->row};
	struct mcufuse_selftest_result r;

	zassert_true(v->model->outputs[0].bytes <= sizeof(wrong));
	memcpy(wrong, one.expected, v->model->outputs[0].bytes);
	wrong[3] ^= 1U;
	one.expected = wrong;
	zassert_equal(mcufuse_selftest(&bad, &r), -EBADMSG);
	zassert_equal(r.cases_failed, 1);
	zassert_equal(r.output, 0);
	zassert_equal(r.index, 3);
	zassert_equal(r.got ^ r.want, 1);
#else
	ztest_test_skip();
#endif
}

ZTEST_SUITE(networks, NULL, NULL, NULL, NULL, NULL);
