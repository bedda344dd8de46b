/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include "counter.h"

#define MF_REG(address) (*(volatile uint32_t *)(address))

#if defined(MF_COUNTER_CMSDK)

#define TIMER_CTRL    MF_REG(MF_COUNTER_CMSDK + 0x00)
#define TIMER_VALUE   MF_REG(MF_COUNTER_CMSDK + 0x04)
#define TIMER_RELOAD  MF_REG(MF_COUNTER_CMSDK + 0x08)
#define CTRL_ENABLE   (1U << 0)
/* The dual timer stands 0x2000 behind TIMER0 and runs at the same clock. */
#define DUAL_LOAD     MF_REG(MF_COUNTER_CMSDK + 0x2000)
#define DUAL_VALUE    MF_REG(MF_COUNTER_CMSDK + 0x2004)
#define DUAL_CONTROL  MF_REG(MF_COUNTER_CMSDK + 0x2008)
#define DUAL_ENABLE   (1U << 7)
#define DUAL_PERIODIC (1U << 6)
#define DUAL_DIV_256  (2U << 2)
#define DUAL_32_BITS  (1U << 1)

void mf_counter_start(void)
{
	TIMER_RELOAD = 0xffffffffU;
	TIMER_VALUE = 0xffffffffU;
	TIMER_CTRL = CTRL_ENABLE;
	DUAL_CONTROL = DUAL_PERIODIC | DUAL_DIV_256 | DUAL_32_BITS;
	DUAL_LOAD = 0xffffffffU;
	DUAL_CONTROL = DUAL_ENABLE | DUAL_PERIODIC | DUAL_DIV_256 | DUAL_32_BITS;
}

uint32_t mf_counter_slow(void)
{
	return ~DUAL_VALUE;
}

#elif defined(MF_COUNTER_SSE)

#define COUNTER_CNTCR   MF_REG(MF_COUNTER_SSE + 0x00)
#define COUNTER_CNTCV_L MF_REG(MF_COUNTER_SSE + 0x08)
#define COUNTER_CNTCV_H MF_REG(MF_COUNTER_SSE + 0x0c)
#define CNTCR_ENABLE    (1U << 0)

void mf_counter_start(void)
{
	COUNTER_CNTCR |= CNTCR_ENABLE;
}

uint32_t mf_counter_slow(void)
{
	uint32_t high, low;

	do {
		high = COUNTER_CNTCV_H;
		low = COUNTER_CNTCV_L;
	} while (high != COUNTER_CNTCV_H);
	return high << 24 | low >> 8;
}

#elif defined(MF_COUNTER_NRF)

/* TIMER1 runs 256 times slower than TIMER0. */
#define TIMER_SLOW             (MF_COUNTER_NRF + 0x1000)
#define TIMER_START(timer)     MF_REG((timer) + 0x000)
#define TIMER_CAPTURE0(timer)  MF_REG((timer) + 0x040)
#define TIMER_BITMODE(timer)   MF_REG((timer) + 0x508)
#define TIMER_PRESCALER(timer) MF_REG((timer) + 0x510)
#define TIMER_CC0(timer)       MF_REG((timer) + 0x540)
#define BITMODE_32             3U
#define DIV_256                8U

void mf_counter_start(void)
{
	TIMER_BITMODE(MF_COUNTER_NRF) = BITMODE_32;
	TIMER_PRESCALER(MF_COUNTER_NRF) = 0U;
	TIMER_START(MF_COUNTER_NRF) = 1U;
	TIMER_BITMODE(TIMER_SLOW) = BITMODE_32;
	TIMER_PRESCALER(TIMER_SLOW) = DIV_256;
	TIMER_START(TIMER_SLOW) = 1U;
}

uint32_t mf_counter_slow(void)
{
	TIMER_CAPTURE0(TIMER_SLOW) = 1U;
	return TIMER_CC0(TIMER_SLOW);
}

#endif
