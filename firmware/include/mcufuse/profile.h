/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Where the cycles of an inference go. Zephyr only, with CONFIG_MCUFUSE_PROFILE.
 */
#ifndef MCUFUSE_PROFILE_H_
#define MCUFUSE_PROFILE_H_

#include <mcufuse/mcufuse.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief Run one inference entry by entry and take the time of each.
 *
 * Interrupts stay enabled and count where they fall. On QEMU the cycles stand for instructions and
 * say nothing about time. Also logs each entry at debug level (log module `mcufuse`).
 *
 * @param m      a network whose input is resident; its inputs have been written
 * @param cycles gets @c m->n_steps values of k_cycle_get_32() differences
 *
 * @retval 0 the outputs are ready
 * @retval -EINVAL a NULL pointer
 * @retval -ENOTSUP the network is fed by rows: part of the work is done as rows arrive
 */
int mcufuse_profile(const struct mcufuse_model *m, uint32_t *cycles);

#ifdef __cplusplus
}
#endif

#endif /* MCUFUSE_PROFILE_H_ */
