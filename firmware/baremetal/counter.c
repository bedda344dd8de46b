/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include "counter.h"

#define MF_REG(address) (*(volatile uint32_t *)(address))

#if defined(MF_COUNTER_CMSDK)

#define TIMER_CTRL      MF_REG(MF_COUNTER_CMSDK + 0x00)
#define TIMER_VALUE     MF_REG(MF_COUNTER_CMSDK + 0x04)
#define TIMER_RELOAD    MF_REG(MF_COUNTER_CMSDK + 0x08)
#define TIMER_INTSTATUS MF_REG(MF_COUNTER_CMSDK + 0x0c)
#define CTRL_ENABLE     (1U << 0)
#define CTRL_INT_ENABLE (1U << 3) /* of the status bit; the NVIC does not pass it on */

void mf_counter_start(void)
{
	TIMER_RELOAD = 0xffffffffU;
	TIMER_VALUE = 0xffffffffU;
	TIMER_CTRL = CTRL_ENABLE | CTRL_INT_ENABLE;
}

void mf_counter_watch(void)
{
	TIMER_VALUE = 0xffffffffU;
	TIMER_INTSTATUS = 1U;
}

int mf_counter_wrapped(void)
{
	return (TIMER_INTSTATUS & 1U) != 0U;
}

#elif defined(MF_COUNTER_SSE)

#define COUNTER_CNTCR   MF_REG(MF_COUNTER_SSE + 0x00)
#define COUNTER_CNTCV_H MF_REG(MF_COUNTER_SSE + 0x0c)
#define COUNTER_CNTCV_L MF_REG(MF_COUNTER_SSE + 0x08)
#define CNTCR_ENABLE    (1U << 0)

void mf_counter_start(void)
{
	COUNTER_CNTCR |= CNTCR_ENABLE;
}

void mf_counter_watch(void)
{
	/* The counter may be written only while it stands. */
	COUNTER_CNTCR &= ~CNTCR_ENABLE;
	COUNTER_CNTCV_L = 0U;
	COUNTER_CNTCV_H = 0U;
	COUNTER_CNTCR |= CNTCR_ENABLE;
}

int mf_counter_wrapped(void)
{
	return COUNTER_CNTCV_H != 0U;
}

#elif defined(MF_COUNTER_NRF)

/* TIMER1 runs 256 times slower than TIMER0 and tells whether TIMER0 came round. */
#define TIMER_SLOW             (MF_COUNTER_NRF + 0x1000)
#define TIMER_START(timer)     MF_REG((timer) + 0x000)
#define TIMER_CLEAR(timer)     MF_REG((timer) + 0x00c)
#define TIMER_CAPTURE0(timer)  MF_REG((timer) + 0x040)
#define TIMER_BITMODE(timer)   MF_REG((timer) + 0x508)
#define TIMER_PRESCALER(timer) MF_REG((timer) + 0x510)
#define TIMER_CC0(timer)       MF_REG((timer) + 0x540)
#define BITMODE_32             3U
#define SLOW_SHIFT             8U

void mf_counter_start(void)
{
	TIMER_BITMODE(MF_COUNTER_NRF) = BITMODE_32;
	TIMER_PRESCALER(MF_COUNTER_NRF) = 0U;
	TIMER_START(MF_COUNTER_NRF) = 1U;
	TIMER_BITMODE(TIMER_SLOW) = BITMODE_32;
	TIMER_PRESCALER(TIMER_SLOW) = SLOW_SHIFT;
	TIMER_START(TIMER_SLOW) = 1U;
}

void mf_counter_watch(void)
{
	TIMER_CLEAR(MF_COUNTER_NRF) = 1U;
	TIMER_CLEAR(TIMER_SLOW) = 1U;
}

int mf_counter_wrapped(void)
{
	TIMER_CAPTURE0(TIMER_SLOW) = 1U;
	return TIMER_CC0(TIMER_SLOW) >= (1U << (32U - SLOW_SHIFT));
}

#endif
