/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Where the arena and the weights of a generated network stand.
 *
 * The build may name other sections than the compiler's own; the Zephyr module does so for the
 * chosen nodes mcufuse,arena and mcufuse,weights.
 */
#ifndef MCUFUSE_PLACEMENT_H_
#define MCUFUSE_PLACEMENT_H_

/** Alignment of an arena: what vector loads and DMA engines want. */
#define MF_ARENA_ALIGN 16

#ifdef MCUFUSE_ARENA_SECTION
#define MF_ARENA __attribute__((aligned(MF_ARENA_ALIGN), section(MCUFUSE_ARENA_SECTION)))
#else
#define MF_ARENA __attribute__((aligned(MF_ARENA_ALIGN)))
#endif

/** One arena for networks that never run at the same time: the linker keeps the largest. */
#define MF_ARENA_SHARED __attribute__((common, aligned(MF_ARENA_ALIGN)))

#ifdef MCUFUSE_WEIGHTS_SECTION
#define MF_WEIGHTS __attribute__((section(MCUFUSE_WEIGHTS_SECTION)))
#else
#define MF_WEIGHTS
#endif

#endif /* MCUFUSE_PLACEMENT_H_ */
