"""Numbers as they lie in our files, for the twins that read and write them."""

from libc.stdint cimport uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Of at most 8 bytes, all but always a constant: then one load or store, which GCC makes no loop over bytes into. */
    static inline uint64_t leveret_get_le(const uint8_t *p, int size) {
        uint64_t value = 0;
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        memcpy(&value, p, (size_t)size);
    #else
        for (int i = 0; i < size; i++) value |= (uint64_t)p[i] << (8 * i);
    #endif
        return value;
    }

    static inline void leveret_put_le(uint8_t *p, uint64_t value, int size) {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        memcpy(p, &value, (size_t)size);
    #else
        for (int i = 0; i < size; i++) p[i] = (uint8_t)(value >> (8 * i));
    #endif
    }
    """
    uint64_t get_le "leveret_get_le" (const uint8_t *p, int size) noexcept nogil
    void put_le "leveret_put_le" (uint8_t *p, uint64_t value, int size) noexcept nogil
