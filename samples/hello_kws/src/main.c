/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "kws.h"
#include "kws_stack.h"

#define OWN_STACK 512 /* printk(), the frames here, and an exception */

static const char *const words[] = {
	"down",  "go",   "left", "no",  "off",     "on",
	"right", "stop", "up",   "yes", "silence", "something unknown",
};

/* A ramp over the frames, each feature shifted a little. */
static void listen(int8_t *features, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		features[i] = (int8_t)(i * 5U + i / 10U * 3U);
	}
}

static uint32_t best(const int8_t *scores, uint32_t count)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < count; i++) {
		if (scores[i] > scores[at]) {
			at = i;
		}
	}
	return at;
}

static void classify(void *p1, void *p2, void *p3)
{
	const int8_t *scores;
	uint32_t word;
	int err;

	ARG_UNUSED(p1);
	ARG_UNUSED(p2);
	ARG_UNUSED(p3);

	err = mcufuse_init(&kws_model);
	if (err != 0) {
		printk("mcufuse_init: %d\n", err);
		return;
	}
	listen(mcufuse_input(&kws_model, 0), kws_model.inputs[0].bytes);
	err = mcufuse_run(&kws_model);
	if (err != 0) {
		printk("mcufuse_run: %d\n", err);
		return;
	}
	scores = mcufuse_output(&kws_model, 0);
	word = best(scores, MIN(kws_model.outputs[0].bytes, ARRAY_SIZE(words)));
	printk("heard \"%s\" (score %d of 255)\n", words[word], scores[word] + 128);
}

K_THREAD_DEFINE(classifier, KWS_STACK_BYTES + OWN_STACK, classify, NULL, NULL, NULL,
		K_LOWEST_APPLICATION_THREAD_PRIO, 0, 0);
