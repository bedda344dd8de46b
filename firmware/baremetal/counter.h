/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Counts instructions of a call, with a free-running timer of the emulated machine.
 *
 * Under `-icount shift=N` each instruction takes exactly 2^N ns of the guest's time, and a timer read
 * gives the time of the very instruction that reads. With N = 8 even the slowest timer used here
 * (16 MHz) ticks 4 times per instruction, so that a difference of two reads, which is wrong by less
 * than one tick, tells the number of instructions without doubt. The same window round an empty
 * function and round loops of known length is measured in each run (calibrate() in runner.c).
 */
#ifndef MCUFUSE_BAREMETAL_COUNTER_H_
#define MCUFUSE_BAREMETAL_COUNTER_H_

/*
 * Per machine: MF_COUNTER_VALUE is the address to read; MF_COUNTER_CAPTURE, where defined, is an
 * address to write 1 to, immediately before; MF_COUNTER_DOWN tells the direction.
 */
#if defined(MF_COUNTER_CMSDK) /* Arm CMSDK APB timer: MPS2 boards and SSE-200 */
#define MF_COUNTER_VALUE (MF_COUNTER_CMSDK + 0x04)
#define MF_COUNTER_DOWN  1
#elif defined(MF_COUNTER_SSE) /* SSE-300 system counter, MF_COUNTER_SSE is its control frame */
#define MF_COUNTER_VALUE (MF_COUNTER_SSE + 0x08)
#define MF_COUNTER_DOWN  0
#elif defined(MF_COUNTER_NRF) /* nRF51 TIMER0 */
#define MF_COUNTER_CAPTURE (MF_COUNTER_NRF + 0x40)
#define MF_COUNTER_VALUE   (MF_COUNTER_NRF + 0x540)
#define MF_COUNTER_DOWN    0
#else
#error "no counter given for this machine"
#endif

#ifndef __ASSEMBLER__

#include <stdint.h>

/** What mf_call_counted() found. */
struct mf_counted {
	uint32_t start; /**< counter before the call */
	uint32_t end;   /**< counter after the call */
	int32_t result; /**< what the function returned */
};

/**
 * @brief Call `fn(a, b, c)` on another stack, between two readings of the counter.
 *
 * @param args      a, b, c
 * @param stack_top end of the stack to use, a multiple of 8
 */
void mf_call_counted(uintptr_t fn, const uintptr_t args[3], void *stack_top,
		     struct mf_counted *out);

/** A function of one instruction (bx lr). */
void mf_empty(void);

/** A function of 2 n + 1 instructions, n > 0. */
void mf_loop(uint32_t n);

/** Starts the counter, and a slow one that tells how often it comes round. */
void mf_counter_start(void);

/** The slow counter: goes up by one for each 256 ticks of the other, at any phase. */
uint32_t mf_counter_slow(void);

#endif /* __ASSEMBLER__ */

#endif /* MCUFUSE_BAREMETAL_COUNTER_H_ */
