/*
 * Copyright (c) 2026 The mcufuse authors
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The instructions that plain C does not reach, each with its meaning in C beside it.
 *
 * This is the only header for Armv7-M and DSP that contains instruction-set conditionals. Where the
 * compiler does not optimise, immediates are not constants: then the C stands in.
 */
#ifndef MCUFUSE_SIMD_H_
#define MCUFUSE_SIMD_H_

#include <mcufuse/common.h>

#if defined(__ARM_FEATURE_SAT) && MF_OPTIMIZED
#define MF_HAS_SAT 1
#else
#define MF_HAS_SAT 0
#endif

/**
 * @brief Hide where a pointer comes from.
 *
 * The compiler then addresses with immediate offsets from it; if it knows more, it keeps one pointer
 * for each offset, or builds addresses of constant arrays anew, and runs out of registers.
 */
#define MF_KEEP(pointer) __asm__("" : "+r"(pointer))

/** @brief Keep the loads of one step of a loop behind those before: the compiler would run out of registers. */
#define MF_IN_ORDER() __asm__ volatile("" ::: "memory")

/** @brief @p x >> @p shift, limited to [@p lo, @p hi]; @p shift, @p lo and @p hi are constants. */
MF_INLINE int32_t mf_shift_clamp(int32_t x, int shift, int32_t lo, int32_t hi)
{
#if MF_HAS_SAT
	int32_t y;

	if (lo == -128 && hi == 127) {
		if (shift == 0) {
			__asm__("ssat %0, #8, %1" : "=r"(y) : "r"(x));
		} else {
			__asm__("ssat %0, #8, %1, asr %2"
				: "=r"(y)
				: "r"(x), "i"(shift > 0 ? shift : 1));
		}
		return y;
	}
	if (lo == 0 && hi == 127 && shift > 0) {
		__asm__("usat %0, #7, %1, asr %2" : "=r"(y) : "r"(x), "i"(shift > 0 ? shift : 1));
		return y;
	}
#endif
	return mf_clamp(x >> shift, lo, hi);
}

/** @brief The high word of @p a * @p b. */
MF_INLINE int32_t mf_multiply_high(int32_t a, int32_t b)
{
#if defined(__ARM_ARCH_6M__)
	/* no long multiplication: by halves, none of whose sums leaves 32 bits */
	const uint32_t a_lo = (uint16_t)a;
	const uint32_t b_lo = (uint16_t)b;
	const int32_t a_hi = a >> 16;
	const int32_t b_hi = b >> 16;
	const int32_t cross = (int32_t)((a_lo * b_lo) >> 16) + a_hi * (int32_t)b_lo;
	const int32_t other = (int32_t)(uint16_t)cross + (int32_t)a_lo * b_hi;

	return a_hi * b_hi + (cross >> 16) + (other >> 16);
#else
	return (int32_t)(((int64_t)a * b) >> 32);
#endif
}

/** @brief The high word of @p c + @p a * @p b. */
MF_INLINE int32_t mf_multiply_add_high(int64_t c, int32_t a, int32_t b)
{
#if defined(__ARM_ARCH_6M__)
	const uint32_t low = (uint32_t)a * (uint32_t)b;
	const uint32_t carry = low + (uint32_t)c < low;

	return (int32_t)((uint32_t)mf_multiply_high(a, b) + (uint32_t)(c >> 32) + carry);
#else
	return (int32_t)((c + (int64_t)a * b) >> 32);
#endif
}

/** @brief @p r plus the high word of @p a * @p b. */
MF_INLINE int32_t mf_multiply_high_add(int32_t a, int32_t b, int32_t r)
{
#if MF_HAS_DSP
	int32_t y;

	__asm__("smmla %0, %1, %2, %3" : "=r"(y) : "r"(a), "r"(b), "r"(r));
	return y;
#else
	return (int32_t)((uint32_t)mf_multiply_high(a, b) + (uint32_t)r);
#endif
}

/** @brief A word from any address. */
MF_INLINE uint32_t mf_load_u32(const int8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/** @brief Bytes 0 and 2 as signed halfwords. */
MF_INLINE uint32_t mf_sxtb16(uint32_t x)
{
#if MF_HAS_DSP
	uint32_t y;

	__asm__("sxtb16 %0, %1" : "=r"(y) : "r"(x));
	return y;
#else
	return (uint16_t)(int8_t)x | (uint32_t)(uint16_t)(int8_t)(x >> 16) << 16;
#endif
}

/** @brief Bytes 1 and 3 as signed halfwords. */
MF_INLINE uint32_t mf_sxtb16_ror8(uint32_t x)
{
#if MF_HAS_DSP
	uint32_t y;

	__asm__("sxtb16 %0, %1, ror #8" : "=r"(y) : "r"(x));
	return y;
#else
	return mf_sxtb16(x >> 8);
#endif
}

/** @brief @p acc plus the products of both pairs of halfwords, modulo 2^32. */
MF_INLINE uint32_t mf_smlad(uint32_t x, uint32_t w, uint32_t acc)
{
#if MF_HAS_DSP
	uint32_t sum;

	__asm__("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(w), "r"(acc));
	return sum;
#else
	const int32_t low = (int16_t)x * (int16_t)w;
	const int32_t high = (int16_t)(x >> 16) * (int16_t)(w >> 16);

	return acc + (uint32_t)low + (uint32_t)high;
#endif
}

/** @brief @p acc plus the product of the low halfwords, modulo 2^32. */
MF_INLINE uint32_t mf_smlabb(uint32_t x, uint32_t w, uint32_t acc)
{
#if MF_HAS_DSP
	uint32_t sum;

	__asm__("smlabb %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(w), "r"(acc));
	return sum;
#else
	return acc + (uint32_t)((int16_t)x * (int16_t)w);
#endif
}

/** @brief @p acc plus the product of the low halfword of @p x and the high one of @p w. */
MF_INLINE uint32_t mf_smlabt(uint32_t x, uint32_t w, uint32_t acc)
{
#if MF_HAS_DSP
	uint32_t sum;

	__asm__("smlabt %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(w), "r"(acc));
	return sum;
#else
	return acc + (uint32_t)((int16_t)x * (int16_t)(w >> 16));
#endif
}

/** @brief The low halfword of a constant twice. */
MF_INLINE uint32_t mf_pack_constant(uint32_t half)
{
	return (uint16_t)half | half << 16;
}

/** @brief The low halfwords of @p low and @p high in one word. */
MF_INLINE uint32_t mf_pack_halves(uint32_t low, uint32_t high)
{
#if MF_HAS_DSP
	uint32_t y;

	__asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(y) : "r"(low), "r"(high));
	return y;
#else
	return (uint16_t)low | high << 16;
#endif
}

/** @brief The high halfwords of @p low and @p high in one word. */
MF_INLINE uint32_t mf_pack_high_halves(uint32_t low, uint32_t high)
{
#if MF_HAS_DSP
	uint32_t y;

	__asm__("pkhtb %0, %1, %2, asr #16" : "=r"(y) : "r"(high), "r"(low));
	return y;
#else
	return low >> 16 | (high & 0xffff0000u);
#endif
}

#endif /* MCUFUSE_SIMD_H_ */
