/* CRC-32C: by the processor's own instruction where there is one, else eight bytes at a time by tables.
 *
 * The instruction's answer takes three cycles, and one can begin in each: so three neighbouring blocks of a large buffer are
 * summed side by side, and joined as if their sums had been taken one behind the other (crc32c_behind_block). The processor does
 * not foresee three streams of a kibibyte each: what is not in its caches was summed at 7 GB/s, and at 12 since the blocks behind
 * these are asked for ahead.
 *
 * Which it is, is asked at run time, so one build runs on every x86-64; other machines have the tables. The tables are
 * filled by crc32c_init, which each module that includes this file calls once, under the GIL, when it is imported.
 */
#ifndef LEVERET_CRC32C_H
#define LEVERET_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CRC32C_POLYNOMIAL_REFLECTED 0x82F63B78u

#define CRC32C_BLOCK 1024
#define CRC32C_CACHE_LINE 64

static uint32_t crc32c_tables[8][256];
static uint32_t crc32c_block_tables[4][256]; /* what a block of zeros makes of each byte of a checksum */
static int crc32c_has_instruction = 0;

static uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *at, size_t len)
{
    for (; len >= 8; at += 8, len -= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc32c_tables[7][low & 0xFF] ^ crc32c_tables[6][low >> 8 & 0xFF] ^ crc32c_tables[5][low >> 16 & 0xFF]
            ^ crc32c_tables[4][low >> 24] ^ crc32c_tables[3][at[4]] ^ crc32c_tables[2][at[5]] ^ crc32c_tables[1][at[6]]
            ^ crc32c_tables[0][at[7]];
    }
    while (len--)
        crc = crc >> 8 ^ crc32c_tables[0][(crc ^ *at++) & 0xFF];
    return crc;
}

/* The checksum of a buffer that goes on with a block of zeros: the sum of one that goes on with any block, but for what that
 * block adds. */
static inline uint32_t crc32c_behind_block(uint32_t crc)
{
    return crc32c_block_tables[0][crc & 0xFF] ^ crc32c_block_tables[1][crc >> 8 & 0xFF]
        ^ crc32c_block_tables[2][crc >> 16 & 0xFF] ^ crc32c_block_tables[3][crc >> 24];
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2")))
static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *at, size_t len)
{
    uint64_t wide = crc;
    for (; len >= 3 * CRC32C_BLOCK; at += 3 * CRC32C_BLOCK, len -= 3 * CRC32C_BLOCK) {
        uint64_t second = 0, third = 0, words[3];
        for (size_t place = 0; place < CRC32C_BLOCK; place += 8) {
            if (place % CRC32C_CACHE_LINE == 0)
                for (size_t block = 3; block < 6; block++)
                    __builtin_prefetch(at + block * CRC32C_BLOCK + place);
            memcpy(&words[0], at + place, 8);
            memcpy(&words[1], at + CRC32C_BLOCK + place, 8);
            memcpy(&words[2], at + 2 * CRC32C_BLOCK + place, 8);
            wide = __builtin_ia32_crc32di(wide, words[0]);
            second = __builtin_ia32_crc32di(second, words[1]);
            third = __builtin_ia32_crc32di(third, words[2]);
        }
        wide = crc32c_behind_block((uint32_t)wide) ^ second;
        wide = crc32c_behind_block((uint32_t)wide) ^ third;
    }
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (len--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return crc;
}

static int crc32c_ask_processor(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}
#else
static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *at, size_t len)
{
    return crc32c_by_tables(crc, at, len);
}

static int crc32c_ask_processor(void)
{
    return 0;
}
#endif

static void crc32c_init(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL_REFLECTED : 0);
        crc32c_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = crc32c_tables[table - 1][byte];
            crc32c_tables[table][byte] = crc >> 8 ^ crc32c_tables[0][crc & 0xFF];
        }
    static const uint8_t zeros[CRC32C_BLOCK];
    for (int place = 0; place < 4; place++)
        for (uint32_t byte = 0; byte < 256; byte++)
            crc32c_block_tables[place][byte] = crc32c_by_tables(byte << 8 * place, zeros, CRC32C_BLOCK);
    crc32c_has_instruction = crc32c_ask_processor();
}

/* The checksum of a buffer that follows on one whose checksum is value (0 if none does). */
static uint32_t crc32c_of(uint32_t value, const void *buffer, size_t len)
{
    uint32_t crc = ~value;
    crc = crc32c_has_instruction ? crc32c_by_instruction(crc, (const uint8_t *)buffer, len)
                                 : crc32c_by_tables(crc, (const uint8_t *)buffer, len);
    return ~crc;
}

#endif
