/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

#include <string.h>

#include "semihost.h"

enum mf_semihost_operation {
	SYS_OPEN = 0x01,
	SYS_CLOSE = 0x02,
	SYS_WRITE0 = 0x04,
	SYS_WRITE = 0x05,
	SYS_READ = 0x06,
	SYS_EXIT_EXTENDED = 0x20,
};

#define ADP_STOPPED_APPLICATION_EXIT 0x20026U

static uintptr_t semihost(enum mf_semihost_operation operation, const void *argument)
{
	register uintptr_t r0 __asm__("r0") = (uintptr_t)operation;
	register const void *r1 __asm__("r1") = argument;

	__asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
	return r0;
}

void mf_semihost_exit(int code)
{
	const uintptr_t block[2] = {ADP_STOPPED_APPLICATION_EXIT, (uintptr_t)code};

	for (;;) {
		(void)semihost(SYS_EXIT_EXTENDED, block);
	}
}

int mf_semihost_open(const char *path, enum mf_semihost_mode mode)
{
	const uintptr_t block[3] = {(uintptr_t)path, (uintptr_t)mode, strlen(path)};

	return (int)semihost(SYS_OPEN, block);
}

int mf_semihost_close(int handle)
{
	const uintptr_t block[1] = {(uintptr_t)handle};

	return (int)semihost(SYS_CLOSE, block);
}

void mf_semihost_read(int handle, void *to, size_t bytes)
{
	const uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)to, bytes};

	/* The answer is the number of bytes that are missing. */
	if (bytes != 0U && semihost(SYS_READ, block) != 0U) {
		mf_semihost_text("mcufuse-error the host file ended early\n");
		mf_semihost_exit(MF_EXIT_HOST);
	}
}

void mf_semihost_write(int handle, const void *from, size_t bytes)
{
	const uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)from, bytes};

	if (bytes != 0U && semihost(SYS_WRITE, block) != 0U) {
		mf_semihost_text("mcufuse-error the host could not write\n");
		mf_semihost_exit(MF_EXIT_HOST);
	}
}

void mf_semihost_text(const char *text)
{
	(void)semihost(SYS_WRITE0, text);
}

void mf_semihost_hex(uint32_t value)
{
	char text[11] = "0x";

	for (unsigned int i = 0; i < 8U; i++) {
		text[2U + i] = "0123456789abcdef"[(value >> (28U - 4U * i)) & 15U];
	}
	mf_semihost_text(text);
}
