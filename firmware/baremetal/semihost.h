/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Arm semihosting: the emulated core asks the host for files, text and the end of the run.
 *
 * Source of the operation numbers and argument blocks: Arm's "Semihosting for AArch32 and AArch64".
 */
#ifndef MCUFUSE_BAREMETAL_SEMIHOST_H_
#define MCUFUSE_BAREMETAL_SEMIHOST_H_

#include <stddef.h>
#include <stdint.h>

/** Exit codes of the runner, beside 0. generator/mcufuse/baremetal.py knows them too. */
#define MF_EXIT_FAULT 64 /**< the core faulted; a line "mcufuse-fault ..." was written */
#define MF_EXIT_HOST  65 /**< a host file could not be opened, read or written */
#define MF_EXIT_MODEL 66 /**< the network refused to run; a line "mcufuse-error ..." was written */

/** How mf_semihost_open() opens a host file. */
enum mf_semihost_mode {
	MF_SEMIHOST_READ = 1,  /**< "rb" */
	MF_SEMIHOST_WRITE = 5, /**< "wb" */
};

/** Ends the emulator with exit code @p code. */
__attribute__((noreturn)) void mf_semihost_exit(int code);

/** Opens the host file @p path; a handle, or -1. */
int mf_semihost_open(const char *path, enum mf_semihost_mode mode);

/** Closes a handle; 0, or -1 when the host could not write all of it. */
int mf_semihost_close(int handle);

/** Reads exactly @p bytes, or ends the emulator with MF_EXIT_HOST. */
void mf_semihost_read(int handle, void *to, size_t bytes);

/** Writes exactly @p bytes, or ends the emulator with MF_EXIT_HOST. */
void mf_semihost_write(int handle, const void *from, size_t bytes);

/** Writes text to the debug console (the emulator's standard error). */
void mf_semihost_text(const char *text);

/** Writes 0x and eight hexadecimal digits to the debug console. */
void mf_semihost_hex(uint32_t value);

#endif /* MCUFUSE_BAREMETAL_SEMIHOST_H_ */
