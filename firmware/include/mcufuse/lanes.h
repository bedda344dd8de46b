/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Sums of bytes, four channels at a time.
 *
 * Two words hold four 16-bit lanes; up to 256 values fit a lane:
 *
 *     word of memory [x3 x2 x1 x0]     even += [ x2 |  x0 ]
 *                                      odd  += [ x3 |  x1 ]
 */
#ifndef MCUFUSE_LANES_H_
#define MCUFUSE_LANES_H_

#include <mcufuse/common.h>

/** Values that a lane can add up. */
#define MF_LANES_LIMIT 256

/* Words of any address may be loaded: false on Armv6-M, where memcpy would go byte by byte. */
#if defined(__ARM_ARCH) && !defined(__ARM_FEATURE_UNALIGNED)
#define MF_LANES 0
#else
#define MF_LANES 1
#endif

/** @brief Sums of four neighbouring channels. */
struct mf_lanes {
	uint32_t even;
	uint32_t odd;
};

/** @brief Adds the four values at @p x. */
MF_INLINE void mf_lanes_add(struct mf_lanes *sum, const int8_t *x)
{
	uint32_t word;

	memcpy(&word, x, sizeof(word));
#if MF_HAS_DSP
	__asm__("sxtab16 %0, %0, %1" : "+r"(sum->even) : "r"(word));
	__asm__("sxtab16 %0, %0, %1, ror #8" : "+r"(sum->odd) : "r"(word));
#else
	/* values become unsigned, 128 too great, so that no lane borrows from its neighbour */
	word ^= 0x80808080u;
	sum->even += word & 0x00ff00ffu;
	sum->odd += (word >> 8) & 0x00ff00ffu;
#endif
}

/** @brief The sum of channel @p i (0 to 3) after @p count values. */
MF_INLINE int32_t mf_lanes_get(const struct mf_lanes *sum, int i, int32_t count)
{
	uint32_t word = (i & 1) ? sum->odd : sum->even;
	uint32_t lane = (i & 2) ? word >> 16 : word & 0xffffu;

#if MF_HAS_DSP
	(void)count;
	return (int16_t)lane;
#else
	return (int32_t)lane - 128 * count;
#endif
}

#endif /* MCUFUSE_LANES_H_ */
