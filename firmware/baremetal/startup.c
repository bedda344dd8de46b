/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From reset to main() on an emulated Cortex-M, and a report when the core faults.
 */
#include <stdint.h>

#include "semihost.h"

#define SCB_CCR   (*(volatile uint32_t *)0xE000ED14U)
#define SCB_CFSR  (*(volatile uint32_t *)0xE000ED28U)
#define SCB_HFSR  (*(volatile uint32_t *)0xE000ED2CU)
#define SCB_MMFAR (*(volatile uint32_t *)0xE000ED34U)
#define SCB_BFAR  (*(volatile uint32_t *)0xE000ED38U)
#define SCB_CPACR (*(volatile uint32_t *)0xE000ED88U)

#define CCR_DIV_0_TRP (1U << 4)
#define CPACR_CP10_11 (0xFU << 20)

/* Armv6-M has neither a second fault status nor a coprocessor register. */
#if defined(__ARM_ARCH_6M__)
#define MF_HAS_CFSR 0
#else
#define MF_HAS_CFSR 1
#endif

#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
#define MF_HAS_COPROCESSOR 1
#else
#define MF_HAS_COPROCESSOR 0
#endif

extern uint32_t mf_data_start[], mf_data_end[];
extern const uint32_t mf_data_load[];
extern uint32_t mf_bss_start[], mf_bss_end[];
extern uint32_t mf_main_stack_top[];

int main(void);
void mf_reset(void);
void mf_fault_entry(void);
void mf_fault(const uint32_t *frame, uint32_t exc_return, uint32_t exception);

/** The first 16 entries of the vector table; no interrupt is ever enabled. */
__attribute__((section(".vectors"), used)) static const uintptr_t mf_vectors[16] = {
	(uintptr_t)mf_main_stack_top,     (uintptr_t)mf_reset,
	[2] = (uintptr_t)mf_fault_entry,  /* NMI */
	[3] = (uintptr_t)mf_fault_entry,  /* HardFault */
	[4] = (uintptr_t)mf_fault_entry,  /* MemManage */
	[5] = (uintptr_t)mf_fault_entry,  /* BusFault */
	[6] = (uintptr_t)mf_fault_entry,  /* UsageFault */
	[7] = (uintptr_t)mf_fault_entry,  /* SecureFault */
	[11] = (uintptr_t)mf_fault_entry, /* SVCall */
	[12] = (uintptr_t)mf_fault_entry, /* DebugMonitor */
	[14] = (uintptr_t)mf_fault_entry, /* PendSV */
	[15] = (uintptr_t)mf_fault_entry, /* SysTick */
};

void mf_reset(void)
{
	uint32_t *to = mf_data_start;
	const uint32_t *from = mf_data_load;

#if MF_HAS_COPROCESSOR
	SCB_CPACR |= CPACR_CP10_11;
	__asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
#if MF_HAS_CFSR
	SCB_CCR |= CCR_DIV_0_TRP;
#endif
	while (to != mf_data_end) {
		*to++ = *from++;
	}
	for (to = mf_bss_start; to != mf_bss_end; to++) {
		*to = 0U;
	}
	mf_semihost_exit(main());
}

/* The faulting code may have left no stack: begin again at the top of the main stack. */
__attribute__((naked)) void mf_fault_entry(void)
{
	__asm__ volatile("mrs r0, msp\n\t"
			 "mov r1, lr\n\t"
			 "mrs r2, ipsr\n\t"
			 "ldr r3, =mf_main_stack_top\n\t"
			 "mov sp, r3\n\t"
			 "bl mf_fault\n\t"
			 ".ltorg");
}

__attribute__((used)) void mf_fault(const uint32_t *frame, uint32_t exc_return, uint32_t exception)
{
	const uintptr_t at = (uintptr_t)frame;
	const int readable =
		at % 4U == 0U && at >= MF_RAM_ORIGIN && at <= MF_RAM_ORIGIN + (MF_RAM_LENGTH - 32U);

	mf_semihost_text("mcufuse-fault exception=");
	mf_semihost_hex(exception);
	mf_semihost_text(" exc_return=");
	mf_semihost_hex(exc_return);
	mf_semihost_text(" sp=");
	mf_semihost_hex((uint32_t)at);
	if (readable) {
		mf_semihost_text(" pc=");
		mf_semihost_hex(frame[6]);
		mf_semihost_text(" lr=");
		mf_semihost_hex(frame[5]);
	}
#if MF_HAS_CFSR
	mf_semihost_text(" cfsr=");
	mf_semihost_hex(SCB_CFSR);
	mf_semihost_text(" hfsr=");
	mf_semihost_hex(SCB_HFSR);
	mf_semihost_text(" mmfar=");
	mf_semihost_hex(SCB_MMFAR);
	mf_semihost_text(" bfar=");
	mf_semihost_hex(SCB_BFAR);
#endif
	mf_semihost_text("\n");
	mf_semihost_exit(MF_EXIT_FAULT);
}
