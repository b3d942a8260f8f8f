/* CRC-32 as zlib has it, by carry-less multiplication: 64 bytes are folded at a time, and what is left of them is reduced.
 *
 * After V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), whose
 * names the constants have: each is what a stretch of zeros of its length makes of a polynomial of one bit, reflected.
 *
 * Only where the processor has the instruction, which is asked at run time: elsewhere zlib's own is used (_crc32.pyx).
 */
#ifndef LEVERET_CRC32_H
#define LEVERET_CRC32_H

#include <stddef.h>
#include <stdint.h>

#define CRC32_POLYNOMIAL_REFLECTED 0xEDB88320u

static uint32_t crc32_table[256];

static uint32_t crc32_by_table(uint32_t crc, const uint8_t *at, size_t len)
{
    while (len--)
        crc = crc >> 8 ^ crc32_table[(crc ^ *at++) & 0xFF];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define CRC32_FOLDED_BYTES_MIN 64

__attribute__((target("pclmul,sse4.1")))
static inline __m128i crc32_load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

/* What 128 bits become that lie as far before `next` as the constants say, joined with it. */
__attribute__((target("pclmul,sse4.1")))
static inline __m128i crc32_fold(__m128i folded, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(folded, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(folded, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1")))
static uint32_t crc32_reduce(__m128i folded)
{
    const __m128i k3k4 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i k5 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i polynomial_mu = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low_words = _mm_setr_epi32(~0, 0, ~0, 0);
    __m128i quotient;
    folded = _mm_xor_si128(_mm_srli_si128(folded, 8), _mm_clmulepi64_si128(folded, k3k4, 0x10)); /* to 96 bits */
    folded = _mm_xor_si128(
        _mm_srli_si128(folded, 4), _mm_clmulepi64_si128(_mm_and_si128(folded, low_words), k5, 0x00)); /* to 64 */
    quotient = _mm_clmulepi64_si128(_mm_and_si128(folded, low_words), polynomial_mu, 0x10); /* and, by Barrett, to 32 */
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), polynomial_mu, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(folded, quotient), 1);
}

__attribute__((target("pclmul,sse4.1")))
static uint32_t crc32_by_instruction(uint32_t crc, const uint8_t *at, size_t len)
{
    const __m128i k1k2 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4); /* 64 bytes further */
    const __m128i k3k4 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0); /* 16 bytes further */
    __m128i first, second, third, fourth;
    if (len < CRC32_FOLDED_BYTES_MIN)
        return crc32_by_table(crc, at, len);
    first = _mm_xor_si128(crc32_load(at), _mm_cvtsi32_si128((int)crc));
    second = crc32_load(at + 16);
    third = crc32_load(at + 32);
    fourth = crc32_load(at + 48);
    for (at += 64, len -= 64; len >= 64; at += 64, len -= 64) {
        first = crc32_fold(first, k1k2, crc32_load(at));
        second = crc32_fold(second, k1k2, crc32_load(at + 16));
        third = crc32_fold(third, k1k2, crc32_load(at + 32));
        fourth = crc32_fold(fourth, k1k2, crc32_load(at + 48));
    }
    first = crc32_fold(first, k3k4, second);
    first = crc32_fold(first, k3k4, third);
    first = crc32_fold(first, k3k4, fourth);
    for (; len >= 16; at += 16, len -= 16)
        first = crc32_fold(first, k3k4, crc32_load(at));
    return crc32_by_table(crc32_reduce(first), at, len);
}

static int crc32_ask_processor(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static uint32_t crc32_by_instruction(uint32_t crc, const uint8_t *at, size_t len)
{
    return crc32_by_table(crc, at, len);
}

static int crc32_ask_processor(void)
{
    return 0;
}
#endif

/* Fills the table. Whether crc32_of is faster than zlib. */
static int crc32_init(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC32_POLYNOMIAL_REFLECTED : 0);
        crc32_table[byte] = crc;
    }
    return crc32_ask_processor();
}

/* The checksum of a buffer that follows on one whose checksum is value (0 if none does). */
static uint32_t crc32_of(uint32_t value, const void *buffer, size_t len)
{
    return ~crc32_by_instruction(~value, (const uint8_t *)buffer, len);
}

#endif
