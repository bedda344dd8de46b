/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include "counter.h"

	.syntax unified
	.thumb
	.text

/* Puts the counter into \to; \tmp is lost. The same number of instructions each time. */
.macro counter_read to, tmp
#if defined(MF_COUNTER_CAPTURE)
	ldr \tmp, =MF_COUNTER_CAPTURE
	movs \to, #1
	str \to, [\tmp]
#endif
	ldr \tmp, =MF_COUNTER_VALUE
	ldr \to, [\tmp]
.endm

	.section .text.mf_call_counted, "ax", %progbits
	.global mf_call_counted
	.type mf_call_counted, %function
	.thumb_func
mf_call_counted:
	push {r4-r7, lr}
	mov r4, r3              /* out */
	mov r5, sp
	mov r6, r0              /* fn */
	mov sp, r2
	mov r3, r1
	ldr r0, [r3, #0]
	ldr r1, [r3, #4]
	ldr r2, [r3, #8]
	counter_read r7, r3
	blx r6
	counter_read r2, r3
	mov sp, r5
	str r7, [r4, #0]
	str r2, [r4, #4]
	str r0, [r4, #8]
	pop {r4-r7, pc}
	.ltorg
	.size mf_call_counted, . - mf_call_counted

	.section .text.mf_empty, "ax", %progbits
	.global mf_empty
	.type mf_empty, %function
	.thumb_func
mf_empty:
	bx lr
	.size mf_empty, . - mf_empty

	.section .text.mf_loop, "ax", %progbits
	.global mf_loop
	.type mf_loop, %function
	.thumb_func
mf_loop:
	subs r0, #1
	bne mf_loop
	bx lr
	.size mf_loop, . - mf_loop
