# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/topic_match.py: the same steps over the UTF-8 of both strings."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memchr, memcmp


cdef struct Words:
    const char *at   # the word we are at; NULL = none is left
    const char *end  # of that word
    const char *all_end


cdef inline void find_end(Words *words) noexcept nogil:
    cdef const char *dot = <const char *>memchr(words.at, b'.', <size_t>(words.all_end - words.at))
    words.end = dot if dot != NULL else words.all_end


cdef inline void begin(Words *words, const char *text, Py_ssize_t size) noexcept nogil:
    words.at = text if size else NULL
    words.all_end = text + size
    if size:
        find_end(words)


cdef inline void step(Words *words) noexcept nogil:
    if words.end == words.all_end:
        words.at = NULL
        return
    words.at = words.end + 1
    find_end(words)


cdef inline bint is_one(Words *words, char letter) noexcept nogil:
    return words.at != NULL and words.end - words.at == 1 and words.at[0] == letter


cdef inline bint same_word(Words *a, Words *b) noexcept nogil:
    return (
        a.at != NULL
        and a.end - a.at == b.end - b.at
        and memcmp(a.at, b.at, <size_t>(a.end - a.at)) == 0
    )


cdef bint matches_words(Words part, Words word) noexcept nogil:
    cdef Words after_hash, hash_word
    cdef bint has_hash = False
    while word.at != NULL:
        if is_one(&part, b'#'):
            step(&part)
            has_hash = True
            after_hash = part
            hash_word = word
        elif is_one(&part, b'*') or same_word(&part, &word):
            step(&part)
            step(&word)
        elif has_hash:
            step(&hash_word)
            part = after_hash
            word = hash_word
        else:
            return False
    while is_one(&part, b'#'):
        step(&part)
    return part.at == NULL


def matches(str pattern not None, str key not None):
    """See native/topic_match.py."""
    cdef Py_ssize_t pattern_size = 0, key_size = 0
    cdef const char *pattern_text = PyUnicode_AsUTF8AndSize(pattern, &pattern_size)
    cdef const char *key_text = PyUnicode_AsUTF8AndSize(key, &key_size)
    cdef Words part, word
    begin(&part, pattern_text, pattern_size)
    begin(&word, key_text, key_size)
    return matches_words(part, word)
