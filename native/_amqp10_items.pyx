# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/amqp10_items.py: moves the bytes of what consists of scalars, and asks for the rest.

How large a message becomes is known only when it is converted, so the results grow in a buffer of their own. What is not plain
in a message shows before its end: whatever was written of it until then is taken back.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from native._message_layout cimport Message, damaged, message_at
from native._table_values cimport value_size

cdef enum:
    HEADERS_MAX = 24  # of a message that is converted here: each is compared with all others
    TEXT_BYTES_MAX = 4096
    SHORT_BYTES_MAX = 255
    ITEM_LENGTH = 4
    GROWTH_BYTES = 96  # of a message with usual names; more is found room for when it comes
    ITEM_BYTES_MAX = 0x7FFFFFFF

cdef uint64_t UINT_MAX = 0xFFFFFFFF
cdef uint64_t MILLISECONDS_MAX = (<uint64_t>1 << 63) - 1


# ----------------------------------------------------------------------------- a buffer that grows


cdef struct Out:
    uint8_t *p
    uint64_t size
    uint64_t capacity


cdef int room(Out *out, uint64_t more) except -1:
    """Makes sure of so many bytes behind `size`."""
    cdef uint64_t wanted = out.size + more
    cdef void *moved
    if wanted > out.capacity:
        wanted += wanted // 2 + 256
        moved = PyMem_Realloc(out.p, wanted)
        if moved == NULL:
            raise MemoryError
        out.p = <uint8_t *>moved
        out.capacity = wanted
    return 0


cdef int put(Out *out, const void *p, uint64_t size) except -1:
    room(out, size)
    memcpy(out.p + out.size, p, size)
    out.size += size
    return 0


cdef inline int put_u8(Out *out, uint8_t value) except -1:
    room(out, 1)
    out.p[out.size] = value
    out.size += 1
    return 0


cdef inline void set_u32(uint8_t *p, uint64_t value) noexcept nogil:
    p[0] = (value >> 24) & 0xFF
    p[1] = (value >> 16) & 0xFF
    p[2] = (value >> 8) & 0xFF
    p[3] = value & 0xFF


cdef inline void set_u32le(uint8_t *p, uint64_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = (value >> 8) & 0xFF
    p[2] = (value >> 16) & 0xFF
    p[3] = (value >> 24) & 0xFF


cdef inline int put_u32(Out *out, uint64_t value) except -1:
    room(out, 4)
    set_u32(out.p + out.size, value)
    out.size += 4
    return 0


cdef inline int put_u64(Out *out, uint64_t value) except -1:
    put_u32(out, value >> 32)
    put_u32(out, value & 0xFFFFFFFF)
    return 0


cdef inline uint64_t u32(const uint8_t *p) noexcept nogil:
    return (<uint64_t>p[0] << 24) | (<uint64_t>p[1] << 16) | (<uint64_t>p[2] << 8) | p[3]


cdef inline uint64_t u64(const uint8_t *p) noexcept nogil:
    return (u32(p) << 32) | u32(p + 4)


# ----------------------------------------------------------------------------- bytes


cdef struct Span:
    const uint8_t *p  # NULL: there is none
    uint64_t size


cdef Span span_of(bytes raw):
    return Span(<const uint8_t *>PyBytes_AS_STRING(raw), <uint64_t>PyBytes_GET_SIZE(raw))


cdef bint is_utf8(const uint8_t *p, uint64_t size) noexcept nogil:
    """As Python decodes it: no surrogates, nothing longer than needed, nothing above Unicode."""
    cdef uint64_t at = 0
    cdef uint8_t first, low, high
    cdef int more
    while at < size:
        first = p[at]
        at += 1
        if first < 0x80:
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if size - at < <uint64_t>more or p[at] < low or p[at] > high:
            return False
        at += 1
        while more > 1:
            if p[at] < 0x80 or p[at] > 0xBF:
                return False
            at += 1
            more -= 1
    return True


cdef inline bint is_text(const uint8_t *p, uint64_t size) noexcept nogil:
    return size <= TEXT_BYTES_MAX and memchr(p, 0, size) == NULL and is_utf8(p, size)


cdef inline bint same(Span one, const char *text, uint64_t size) noexcept nogil:
    return one.size == size and memcmp(one.p, text, size) == 0


cdef inline bint begins(Span one, const char *text, uint64_t size) noexcept nogil:
    return one.size >= size and memcmp(one.p, text, size) == 0


cdef bint is_special_annotation(Span name) noexcept nogil:
    """Names that are no plain header, or not only one: these are asked for."""
    return (
        begins(name, b"x-basic-", 8) or begins(name, b"x-opt-", 6) or same(name, b"x-cc", 4) or same(name, b"x-death", 7)
        or same(name, b"x-exchange", 10) or same(name, b"x-routing-key", 13) or same(name, b"x-leveret-091", 13)
        or same(name, b"x-stream-offset", 15)
    )


cdef struct Names:
    Span known[HEADERS_MAX]
    int count


cdef bint is_new(Names *names, Span name) noexcept nogil:
    """Remembers the name. False if it was there, or there are too many."""
    cdef int number
    if names.count == HEADERS_MAX:
        return False
    for number in range(names.count):
        if names.known[number].size == name.size and memcmp(names.known[number].p, name.p, name.size) == 0:
            return False
    names.known[names.count] = name
    names.count += 1
    return True


# ----------------------------------------------------------------------------- 0-9-1 to 1.0


cdef struct Properties:
    Span content_type
    Span content_encoding
    Span headers
    Span delivery_mode
    Span priority
    Span correlation_id
    Span reply_to
    Span expiration
    Span message_id
    Span timestamp
    Span type
    Span user_id
    Span app_id


cdef bint take(const uint8_t *p, uint64_t size, uint64_t *at, uint64_t wanted, Span *found) noexcept nogil:
    if size - at[0] < wanted:
        return False
    found.p = p + at[0]
    found.size = wanted
    at[0] += wanted
    return True


cdef bint take_short(const uint8_t *p, uint64_t size, uint64_t *at, Span *found) noexcept nogil:
    if at[0] >= size:
        return False
    at[0] += 1
    return take(p, size, at, p[at[0] - 1], found)


cdef bint take_sized(const uint8_t *p, uint64_t size, uint64_t *at, Span *found) noexcept nogil:
    if size - at[0] < 4:
        return False
    at[0] += 4
    return take(p, size, at, u32(p + at[0] - 4), found)


cdef bint split_properties(const uint8_t *p, uint64_t size, Properties *found) noexcept nogil:
    """False for what is malformed, and for a cluster id."""
    cdef uint64_t at = 2
    cdef uint32_t flags
    if size < 2:
        return False
    flags = (<uint32_t>p[0] << 8) | p[1]
    if flags & 7:  # cluster id, unknown, further flags
        return False
    if flags & 0x8000 and not take_short(p, size, &at, &found.content_type):
        return False
    if flags & 0x4000 and not take_short(p, size, &at, &found.content_encoding):
        return False
    if flags & 0x2000 and not take_sized(p, size, &at, &found.headers):
        return False
    if flags & 0x1000 and not take(p, size, &at, 1, &found.delivery_mode):
        return False
    if flags & 0x0800 and not take(p, size, &at, 1, &found.priority):
        return False
    if flags & 0x0400 and not take_short(p, size, &at, &found.correlation_id):
        return False
    if flags & 0x0200 and not take_short(p, size, &at, &found.reply_to):
        return False
    if flags & 0x0100 and not take_short(p, size, &at, &found.expiration):
        return False
    if flags & 0x0080 and not take_short(p, size, &at, &found.message_id):
        return False
    if flags & 0x0040 and not take(p, size, &at, 8, &found.timestamp):
        return False
    if flags & 0x0020 and not take_short(p, size, &at, &found.type):
        return False
    if flags & 0x0010 and not take_short(p, size, &at, &found.user_id):
        return False
    if flags & 0x0008 and not take_short(p, size, &at, &found.app_id):
        return False
    return at == size


cdef bint is_plain(Properties *found, uint64_t *ttl) noexcept nogil:
    """Whether the values of the properties, headers aside, can be moved as they are."""
    cdef uint64_t number
    cdef uint8_t character
    ttl[0] = 0
    if found.expiration.p != NULL:
        if found.expiration.size == 0 or found.expiration.size > 10:
            return False
        for number in range(found.expiration.size):
            character = found.expiration.p[number]
            if not c'0' <= character <= c'9':
                return False
            ttl[0] = ttl[0] * 10 + character - c'0'
        if ttl[0] > UINT_MAX:
            return False
    if found.reply_to.p != NULL:
        for number in range(found.reply_to.size):
            character = found.reply_to.p[number]
            if not (c'a' <= character <= c'z' or c'A' <= character <= c'Z' or c'0' <= character <= c'9'
                    or character == c'-' or character == c'.' or character == c'_' or character == c'~'):
                return False
    if found.timestamp.p != NULL and u64(found.timestamp.p) > MILLISECONDS_MAX // 1000:
        return False
    if found.type.p != NULL and same(found.type, b"amqp-1.0", 8):
        return False
    return not begins(found.message_id, b"urn:uuid:", 9) and not begins(found.correlation_id, b"urn:uuid:", 9)


cdef bint next_header(Span headers, uint64_t *at, Span *name, uint8_t *letter, Span *value) noexcept nogil:
    """The header at `at`, and `at` behind it. False for one that is malformed or no scalar."""
    cdef int size
    if not take_short(headers.p, headers.size, at, name) or at[0] >= headers.size:
        return False
    letter[0] = headers.p[at[0]]
    at[0] += 1
    if letter[0] == c'S' or letter[0] == c'x':
        return take_sized(headers.p, headers.size, at, value)
    if letter[0] == c'A' or letter[0] == c'F' or letter[0] == c'D':
        return False
    size = value_size(letter[0])
    return size >= 0 and take(headers.p, headers.size, at, <uint64_t>size, value)


cdef inline bint is_no_number(Span single) noexcept nogil:
    """Of 32 bits: on their way through Python some of them change."""
    return (u32(single.p) & 0x7F800000) == 0x7F800000 and (u32(single.p) & 0x7FFFFF) != 0


cdef bint headers_are_plain(Span headers) noexcept nogil:
    cdef uint64_t at = 0
    cdef Span name, value
    cdef uint8_t letter
    cdef Names names
    names.count = 0
    while at < headers.size:
        if not next_header(headers, &at, &name, &letter, &value) or not is_new(&names, name):
            return False
        if same(name, b"CC", 2) or same(name, b"BCC", 3) or same(name, b"x-death", 7) or same(name, b"x-exchange", 10):
            return False
        if same(name, b"x-routing-key", 13) or same(name, b"x-leveret-091", 13):
            return False
        if letter == c'T' and u64(value.p) > MILLISECONDS_MAX // 1000:
            return False
        if letter == c'f' and is_no_number(value):
            return False
    return True


cdef int put_sized(Out *out, uint8_t code, Span value) except -1:
    """`code` is that of up to 255 bytes."""
    if value.size <= 255:
        put_u8(out, code)
        put_u8(out, <uint8_t>value.size)
    else:
        put_u8(out, code + 0x10)
        put_u32(out, value.size)
    put(out, value.p, value.size)
    return 0


cdef int put_or_null(Out *out, uint8_t code, Span value) except -1:
    if value.p == NULL:
        put_u8(out, 0x40)
    else:
        put_sized(out, code, value)
    return 0


cdef int put_signed(Out *out, uint8_t small, uint8_t code, Span value, int64_t number) except -1:
    if -128 <= number <= 127:
        put_u8(out, small)
        put_u8(out, <uint8_t>(number & 0xFF))
    else:
        put_u8(out, code)
        put(out, value.p, value.size)
    return 0


cdef int put_uint(Out *out, uint64_t number) except -1:
    if number == 0:
        put_u8(out, 0x43)
    elif number <= 255:
        put_u8(out, 0x52)
        put_u8(out, <uint8_t>number)
    else:
        put_u8(out, 0x70)
        put_u32(out, number)
    return 0


cdef int put_milliseconds(Out *out, uint64_t seconds) except -1:
    put_u8(out, 0x83)
    put_u64(out, seconds * 1000)
    return 0


cdef int put_value(Out *out, uint8_t letter, Span value) except -1:
    if letter == c'S':
        put_sized(out, 0xA1 if is_text(value.p, value.size) else 0xA0, value)
    elif letter == c'x':
        put_sized(out, 0xA0, value)
    elif letter == c'I':
        put_signed(out, 0x54, 0x71, value, <int32_t><uint32_t>u32(value.p))
    elif letter == c'l' or letter == c'L':
        put_signed(out, 0x55, 0x81, value, <int64_t>u64(value.p))
    elif letter == c'i':
        put_uint(out, u32(value.p))
    elif letter == c't':
        put_u8(out, 0x41 if value.p[0] else 0x42)
    elif letter == c'V':
        put_u8(out, 0x40)
    elif letter == c'T':
        put_milliseconds(out, u64(value.p))
    else:
        put_u8(out, fixed_code(letter))
        put(out, value.p, value.size)
    return 0


cdef inline uint8_t fixed_code(uint8_t letter) noexcept nogil:
    if letter == c'b':
        return 0x51
    if letter == c'B':
        return 0x50
    if letter == c's':
        return 0x61
    if letter == c'u':
        return 0x60
    return 0x72 if letter == c'f' else 0x82


cdef int put_section(Out *out, uint8_t code) except -1:
    put_u8(out, 0)
    put_u8(out, 0x53)
    put_u8(out, code)
    return 0


cdef int open_compound(Out *out) except -1:
    """Leaves room for the constructor of a list or map, its size and count."""
    room(out, 9)
    out.size += 9
    return 0


cdef int close_compound(Out *out, uint64_t start, uint8_t small_code, uint64_t count) except -1:
    """Writes what `open_compound` at `start` has left room for, in the shorter form if it fits."""
    cdef uint64_t items = out.size - start - 9
    if count <= 255 and items + 1 <= 255:
        out.p[start] = small_code
        out.p[start + 1] = <uint8_t>(items + 1)
        out.p[start + 2] = <uint8_t>count
        memmove(out.p + start + 3, out.p + start + 9, items)
        out.size -= 6
    else:
        out.p[start] = small_code + 0x10
        set_u32(out.p + start + 1, items + 4)
        set_u32(out.p + start + 5, count)
    return 0


cdef int put_header(Out *out, Properties *found, uint64_t ttl) except -1:
    cdef uint64_t start
    put_section(out, 0x70)
    start = out.size
    open_compound(out)
    put_u8(out, 0x41 if found.delivery_mode.p != NULL and found.delivery_mode.p[0] == 2 else 0x42)
    if found.priority.p == NULL:
        put_u8(out, 0x40)
    else:
        put_u8(out, 0x50)
        put_u8(out, found.priority.p[0])
    if found.expiration.p == NULL:
        put_u8(out, 0x40)
    else:
        put_uint(out, ttl)
    put_u8(out, 0x41)
    put_u8(out, 0x43)
    return close_compound(out, start, 0xC0, 5)


cdef int put_named(Out *out, const char *name, uint64_t name_size, Span value) except -1:
    """An annotation whose value is text."""
    put_u8(out, 0xA3)
    put_u8(out, <uint8_t>name_size)
    put(out, name, name_size)
    return put_sized(out, 0xA1, value)


cdef uint64_t put_headers(Out *out, Span headers, bint are_annotations) except? 0:
    """Those that are annotations, or the others; how many they are."""
    cdef uint64_t at = 0, count = 0
    cdef Span name, value
    cdef uint8_t letter
    while at < headers.size and next_header(headers, &at, &name, &letter, &value):
        if begins(name, b"x-", 2) == are_annotations:
            put_sized(out, 0xA3 if are_annotations else 0xA1, name)
            put_value(out, letter, value)
            count += 1
    return count


cdef int put_annotations(Out *out, Properties *found, Span exchange, Span routing_key) except -1:
    cdef uint64_t start, count = 4
    put_section(out, 0x72)
    start = out.size
    open_compound(out)
    put_named(out, b"x-routing-key", 13, routing_key)
    put_named(out, b"x-exchange", 10, exchange)
    if found.type.p != NULL:
        put_named(out, b"x-basic-type", 12, found.type)
        count += 2
    count += 2 * put_headers(out, found.headers, True)
    return close_compound(out, start, 0xC1, count)


cdef int put_properties(Out *out, Properties *found) except -1:
    cdef uint64_t start, count = 0
    cdef Span[11] fields
    cdef int number
    memset(fields, 0, sizeof(fields))
    fields[0] = found.message_id
    fields[1] = found.user_id
    fields[4] = found.reply_to
    fields[5] = found.correlation_id
    fields[6] = found.content_type
    fields[7] = found.content_encoding
    fields[9] = found.timestamp
    fields[10] = found.app_id
    for number in range(11):
        if fields[number].p != NULL:
            count = number + 1
    if count == 0:
        return 0
    put_section(out, 0x73)
    start = out.size
    open_compound(out)
    for number in range(<int>count):
        if number == 4 and fields[4].p != NULL:
            put_queue_address(out, fields[4])
        elif number == 9 and fields[9].p != NULL:
            put_milliseconds(out, u64(fields[9].p))
        elif number == 1:
            put_or_null(out, 0xA0, fields[1])
        elif number == 6 or number == 7:
            put_or_null(out, 0xA3, fields[number])
        else:
            put_or_null(out, 0xA1, fields[number])
    return close_compound(out, start, 0xC0, count)


cdef int put_queue_address(Out *out, Span queue) except -1:
    cdef uint64_t size = queue.size + 8
    if size <= 255:
        put_u8(out, 0xA1)
        put_u8(out, <uint8_t>size)
    else:
        put_u8(out, 0xB1)
        put_u32(out, size)
    put(out, b"/queues/", 8)
    return put(out, queue.p, queue.size)


cdef int put_application_properties(Out *out, Span headers) except -1:
    cdef uint64_t section = out.size, start, count
    put_section(out, 0x74)
    start = out.size
    open_compound(out)
    count = put_headers(out, headers, False)
    if count == 0:
        out.size = section
        return 0
    return close_compound(out, start, 0xC1, 2 * count)


cdef bint put_head(Out *out, const uint8_t *p, uint64_t size, Span exchange, Span routing_key) except -1:
    """The sections before the body. False, and nothing written, for what is not plain."""
    cdef Properties found
    cdef uint64_t ttl
    memset(&found, 0, sizeof(Properties))
    if not split_properties(p, size, &found) or not is_plain(&found, &ttl) or not headers_are_plain(found.headers):
        return False
    put_header(out, &found, ttl)
    put_annotations(out, &found, exchange, routing_key)
    put_properties(out, &found)
    if found.headers.size:
        put_application_properties(out, found.headers)
    return True


cdef int put_bytes(Out *out, bytes raw) except -1:
    return put(out, PyBytes_AS_STRING(raw), <uint64_t>PyBytes_GET_SIZE(raw))


cdef int put_data(Out *out, const uint8_t *body, uint64_t size) except -1:
    put_section(out, 0x75)
    return put_sized(out, 0xA0, Span(body, size))


cdef object put_items(
    Out *out, const uint8_t *content, uint64_t length, Py_ssize_t position, Py_ssize_t count,
    bytes exchange, bytes routing_key, convert,
):
    cdef Message m
    cdef Span known = Span(NULL, 0)
    cdef Span exchange_span = span_of(exchange), key_span = span_of(routing_key)
    cdef uint64_t start, head = 0, head_size = 0
    cdef bytes asked
    while count > 0:
        if not message_at(content, length, <uint64_t>position, &m):
            raise damaged(content, length, position)
        start = out.size
        room(out, ITEM_LENGTH)
        out.size += ITEM_LENGTH
        sections = None
        if known.p != NULL and known.size == m.props_len and memcmp(known.p, content + m.props, known.size) == 0:
            room(out, head_size)
            memcpy(out.p + out.size, out.p + head, head_size)
            out.size += head_size
        else:
            if not put_head(out, content + m.props, m.props_len, exchange_span, key_span):
                asked, sections = convert(
                    content[m.props:m.props + m.props_len], content[m.body:m.body + m.body_len], exchange, routing_key
                )
                put_bytes(out, asked)
            known = Span(content + m.props, m.props_len) if sections is None else Span(NULL, 0)
        head = start + ITEM_LENGTH
        head_size = out.size - head
        if sections is None:
            put_data(out, content + m.body, m.body_len)
        else:
            put_bytes(out, sections)
        if out.size - head > ITEM_BYTES_MAX:
            raise ValueError(f"a message of {out.size - head} bytes is too large for an item")
        set_u32(out.p + start, out.size - head)
        position = <Py_ssize_t>m.end
        count -= 1


def items(content, Py_ssize_t position, Py_ssize_t count, bytes exchange, bytes routing_key, convert):
    """See native/amqp10_items.py."""
    cdef Py_buffer view
    cdef Out out = Out(NULL, 0, 0)
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        if 0 <= position <= view.len and count > 0:
            room(&out, <uint64_t>(view.len - position) + GROWTH_BYTES * <uint64_t>min(count, view.len - position))
        put_items(
            &out, <const uint8_t *>view.buf, <uint64_t>view.len, position, count, exchange, routing_key, convert
        )
        return PyBytes_FromStringAndSize(<const char *>out.p, <Py_ssize_t>out.size)
    finally:
        PyMem_Free(out.p)
        PyBuffer_Release(&view)


# ----------------------------------------------------------------------------- 1.0 to 0-9-1


cdef struct Value:
    uint8_t code
    Span content


cdef struct Parsed:
    Span exchange
    Span routing_key
    Span type
    bint has_mode
    uint8_t mode
    bint has_priority
    uint8_t priority
    bint has_ttl
    uint64_t ttl
    Value[13] properties
    Span annotations      # the items of the map
    Span application
    uint64_t head         # how long the sections before the body are
    Span body


cdef int content_width(uint8_t code) noexcept nogil:
    """Bytes of a value; -1 and -4: it begins with its length of so many bytes; -9: no scalar that is known here."""
    if 0x40 <= code <= 0x44:
        return 0
    if 0x50 <= code <= 0x56:
        return 1
    if code == 0x60 or code == 0x61:
        return 2
    if 0x70 <= code <= 0x72:
        return 4
    if 0x80 <= code <= 0x83:
        return 8
    if code == 0x98:
        return 16
    if code == 0xA0 or code == 0xA1 or code == 0xA3:
        return -1
    if code == 0xB0 or code == 0xB1 or code == 0xB3:
        return -4
    return -9


cdef bint take_value(const uint8_t *p, uint64_t size, uint64_t *at, Value *found) noexcept nogil:
    """A scalar and `at` behind it."""
    cdef int width
    cdef uint64_t wanted
    if at[0] >= size:
        return False
    found.code = p[at[0]]
    at[0] += 1
    width = content_width(found.code)
    if width == -9:
        return False
    if width >= 0:
        wanted = <uint64_t>width
    elif size - at[0] < <uint64_t>-width:
        return False
    elif width == -1:
        wanted = p[at[0]]
        at[0] += 1
    else:
        wanted = u32(p + at[0])
        at[0] += 4
    if not take(p, size, at, wanted, &found.content):
        return False
    return found.code != 0x56 or found.content.p[0] <= 1


cdef bint take_items(const uint8_t *p, uint64_t size, uint64_t *at, uint8_t small, Span *items, uint64_t *count) noexcept nogil:
    """The items of a list or map. `small`: the code of its shorter form."""
    cdef uint64_t wanted
    if at[0] >= size:
        return False
    if small == 0xC0 and p[at[0]] == 0x45:
        at[0] += 1
        count[0] = 0
        return take(p, size, at, 0, items)
    if p[at[0]] == small and size - at[0] >= 3:
        wanted = p[at[0] + 1]
        count[0] = p[at[0] + 2]
        at[0] += 3
        return wanted >= 1 and take(p, size, at, wanted - 1, items)
    if p[at[0]] == small + 0x10 and size - at[0] >= 9:
        wanted = u32(p + at[0] + 1)
        count[0] = u32(p + at[0] + 5)
        at[0] += 9
        return wanted >= 4 and take(p, size, at, wanted - 4, items)
    return False


cdef inline bint is_boolean(uint8_t code) noexcept nogil:
    return code == 0x41 or code == 0x42 or code == 0x56


cdef inline bint is_uint(uint8_t code) noexcept nogil:
    return code == 0x43 or code == 0x52 or code == 0x70


cdef inline bint truth(Value value) noexcept nogil:
    return value.code == 0x41 or (value.code == 0x56 and value.content.p[0] == 1)


cdef inline uint64_t uint_of(Value value) noexcept nogil:
    if value.code == 0x43:
        return 0
    return value.content.p[0] if value.code == 0x52 else u32(value.content.p)


cdef bint parse_header(Span items, uint64_t count, Parsed *m) noexcept nogil:
    cdef uint64_t at = 0, number
    cdef Value value
    if count > 5:
        return False
    for number in range(count):
        if not take_value(items.p, items.size, &at, &value):
            return False
        if value.code == 0x40:
            continue
        if number == 0 and is_boolean(value.code):
            m.has_mode = True
            m.mode = 2 if truth(value) else 1
        elif number == 1 and value.code == 0x50:
            m.has_priority = True
            m.priority = value.content.p[0]
        elif number == 2 and is_uint(value.code):
            m.has_ttl = True
            m.ttl = uint_of(value)
        elif not (number == 3 and is_boolean(value.code)) and not (number == 4 and is_uint(value.code)):
            return False
    return at == items.size


cdef bint parse_properties(Span items, uint64_t count, Parsed *m) noexcept nogil:
    cdef uint64_t at = 0, number
    if count > 13:
        return False
    for number in range(count):
        if not take_value(items.p, items.size, &at, &m.properties[number]):
            return False
    return at == items.size and properties_are_plain(m)


cdef inline bint is_short(Value value, uint8_t small_code) noexcept nogil:
    """Null, or of this type and fit for a short string."""
    return value.code == 0x40 or value.code == small_code or (
        value.code == small_code + 0x10 and value.content.size <= SHORT_BYTES_MAX
    )


cdef bint properties_are_plain(Parsed *m) noexcept nogil:
    cdef Value *fields = m.properties
    cdef int number
    if not is_short(fields[0], 0xA1) or not is_short(fields[5], 0xA1) or not is_short(fields[10], 0xA1):
        return False
    for number in range(6, 8):
        if not is_short(fields[number], 0xA3) and not is_short(fields[number], 0xA1):
            return False
    if fields[1].code != 0x40 and not (is_short(fields[1], 0xA0) and is_text(fields[1].content.p, fields[1].content.size)):
        return False
    if fields[4].code != 0x40:
        if fields[4].code != 0xA1 or memchr(fields[4].content.p, c'%', fields[4].content.size) != NULL:
            return False
    return fields[9].code == 0x40 or (fields[9].code == 0x83 and u64(fields[9].content.p) <= MILLISECONDS_MAX)


cdef bint parse_annotations(Span items, uint64_t count, Parsed *m, Names *names) noexcept nogil:
    """Where it was published and its type; the others are looked at for whether they can be moved."""
    cdef uint64_t at = 0, number
    cdef Value key, value
    cdef Span *named
    if count % 2:
        return False
    for number in range(count // 2):
        if not take_value(items.p, items.size, &at, &key) or not take_value(items.p, items.size, &at, &value):
            return False
        if key.code != 0xA3 or not begins(key.content, b"x-", 2):
            return False
        named = NULL
        if same(key.content, b"x-exchange", 10):
            named = &m.exchange
        elif same(key.content, b"x-routing-key", 13):
            named = &m.routing_key
        elif same(key.content, b"x-basic-type", 12):
            named = &m.type
        elif is_special_annotation(key.content):
            return False
        elif not is_new(names, key.content) or not is_header_value(value):
            return False
        if named != NULL:
            if named.p != NULL or value.code != 0xA1:
                return False
            if named != &m.type and not is_utf8(value.content.p, value.content.size):
                return False
            named[0] = value.content
    m.annotations = items
    return at == items.size


cdef bint parse_application(Span items, uint64_t count, Parsed *m, Names *names) noexcept nogil:
    cdef uint64_t at = 0, number
    cdef Value key, value
    if count % 2:
        return False
    for number in range(count // 2):
        if not take_value(items.p, items.size, &at, &key) or not take_value(items.p, items.size, &at, &value):
            return False
        if key.code != 0xA1 or not is_new(names, key.content) or not is_header_value(value):
            return False
    m.application = items
    return at == items.size


cdef bint is_header_value(Value value) noexcept nogil:
    """UUIDs, which become text, times before 1970 and singles that are no number are asked for."""
    if value.code == 0x83:
        return u64(value.content.p) <= MILLISECONDS_MAX
    return value.code != 0x98 and not (value.code == 0x72 and is_no_number(value.content))


cdef bint take_data(const uint8_t *p, uint64_t size, uint64_t at, Span *body) noexcept nogil:
    """The data section at `at`, which is all that follows."""
    cdef Value value
    if size < at or size - at < 4 or p[at] != 0 or p[at + 1] != 0x53 or p[at + 2] != 0x75:
        return False
    at += 3
    if (p[at] != 0xA0 and p[at] != 0xB0) or not take_value(p, size, &at, &value):
        return False
    body[0] = value.content
    return at == size


cdef bint parse(const uint8_t *p, uint64_t size, Parsed *m) noexcept nogil:
    """False for what is not plain, or malformed."""
    cdef uint64_t at = 0, count
    cdef uint8_t code, before = 0
    cdef Names names
    cdef Span items
    names.count = 0
    while size - at >= 4 and p[at] == 0 and p[at + 1] == 0x53 and p[at + 2] != 0x75:
        code = p[at + 2]
        if code <= before:
            return False
        before = code
        at += 3
        if not take_items(p, size, &at, 0xC0 if code == 0x70 or code == 0x73 else 0xC1, &items, &count):
            return False
        if code == 0x70:
            if not parse_header(items, count, m):
                return False
        elif code == 0x72:
            if not parse_annotations(items, count, m, &names):
                return False
        elif code == 0x73:
            if not parse_properties(items, count, m):
                return False
        elif code != 0x74 or not parse_application(items, count, m, &names):
            return False
    m.head = at
    return take_data(p, size, at, &m.body)


cdef int put_table_value(Out *out, Value value) except -1:
    cdef uint8_t code = value.code
    if code >= 0xA0:
        put_u8(out, c'S')
        put_u32(out, value.content.size)
        return put(out, value.content.p, value.content.size)
    if code == 0x40:
        return put_u8(out, c'V')
    if is_boolean(code):
        put_u8(out, c't')
        return put_u8(out, 1 if truth(value) else 0)
    if is_uint(code):
        put_u8(out, c'i')
        return put_u32(out, uint_of(value))
    if code == 0x54:
        put_u8(out, c'I')
        return put_u32(out, <uint32_t><int32_t><signed char>value.content.p[0])
    if code == 0x55:
        put_u8(out, c'l')
        return put_u64(out, <uint64_t><int64_t><signed char>value.content.p[0])
    if code == 0x44 or code == 0x53:
        put_u8(out, c'l')
        return put_u64(out, 0 if code == 0x44 else value.content.p[0])
    if code == 0x83:
        put_u8(out, c'T')
        return put_u64(out, u64(value.content.p) // 1000)
    put_u8(out, fixed_letter(code))
    return put(out, value.content.p, value.content.size)


cdef inline uint8_t fixed_letter(uint8_t code) noexcept nogil:
    if code == 0x50:
        return c'B'
    if code == 0x51:
        return c'b'
    if code == 0x60:
        return c'u'
    if code == 0x61:
        return c's'
    if code == 0x71:
        return c'I'
    if code == 0x72:
        return c'f'
    return c'd' if code == 0x82 else c'l'


cdef int put_table_fields(Out *out, Span items, bint are_annotations) except -1:
    cdef uint64_t at = 0
    cdef Value key, value
    while take_value(items.p, items.size, &at, &key) and take_value(items.p, items.size, &at, &value):
        if are_annotations and is_special_annotation(key.content):
            continue
        put_u8(out, <uint8_t>key.content.size)
        put(out, key.content.p, key.content.size)
        put_table_value(out, value)
    return 0


cdef int put_short(Out *out, Span value) except -1:
    put_u8(out, <uint8_t>value.size)
    return put(out, value.p, value.size)


cdef uint32_t put_field(Out *out, Value value, uint32_t flag) except? 0xFFFFFFFF:
    """The flag, if there is such a field."""
    if value.code == 0x40:
        return 0
    put_short(out, value.content)
    return flag


cdef int put_decimal(Out *out, uint64_t number) except -1:
    cdef uint8_t[20] digits
    cdef int count = 0
    while True:
        digits[19 - count] = <uint8_t>(c'0' + number % 10)
        count += 1
        number //= 10
        if number == 0:
            break
    return put_short(out, Span(&digits[20 - count], <uint64_t>count))


cdef int put_property_list(Out *out, Parsed *m) except -1:
    cdef uint64_t start = out.size, table
    cdef uint32_t flags = 0
    cdef Value reply_to = m.properties[4]
    room(out, 6)
    out.size += 2
    flags |= put_field(out, m.properties[6], 0x8000)
    flags |= put_field(out, m.properties[7], 0x4000)
    table = out.size
    room(out, 4)
    out.size += 4
    put_table_fields(out, m.annotations, True)
    put_table_fields(out, m.application, False)
    if out.size > table + 4:
        set_u32(out.p + table, out.size - table - 4)
        flags |= 0x2000
    else:
        out.size = table
    if m.has_mode:
        put_u8(out, m.mode)
        flags |= 0x1000
    if m.has_priority:
        put_u8(out, m.priority)
        flags |= 0x0800
    flags |= put_field(out, m.properties[5], 0x0400)
    if reply_to.code != 0x40 and begins(reply_to.content, b"/queues/", 8):
        reply_to.content = Span(reply_to.content.p + 8, reply_to.content.size - 8)
    flags |= put_field(out, reply_to, 0x0200)
    if m.has_ttl:
        put_decimal(out, m.ttl)
        flags |= 0x0100
    flags |= put_field(out, m.properties[0], 0x0080)
    if m.properties[9].code != 0x40:
        put_u64(out, u64(m.properties[9].content.p) // 1000)
        flags |= 0x0040
    if m.type.p != NULL:
        put_short(out, m.type)
        flags |= 0x0020
    flags |= put_field(out, m.properties[1], 0x0010)
    flags |= put_field(out, m.properties[10], 0x0008)
    out.p[start] = <uint8_t>(flags >> 8)
    out.p[start + 1] = <uint8_t>(flags & 0xFF)
    return 0


cdef void forget(Parsed *m) noexcept nogil:
    cdef int number
    memset(m, 0, sizeof(Parsed))
    for number in range(13):
        m.properties[number].code = 0x40


cdef int put_message(Out *out, Span properties, Span body) except -1:
    """As a content has it."""
    if properties.size > UINT_MAX:
        raise ValueError(f"properties of {properties.size} bytes: a message holds at most {UINT_MAX}")
    room(out, 8)
    set_u32le(out.p + out.size, properties.size)
    set_u32le(out.p + out.size + 4, body.size)
    out.size += 8
    put(out, properties.p, properties.size)
    return put(out, body.p, body.size)


cdef bytes bytes_of(Span span):
    return PyBytes_FromStringAndSize(<const char *>span.p, <Py_ssize_t>span.size)


cdef bint equal(Span span, bytes raw):
    """A span that is none is None."""
    if span.p == NULL or raw is None:
        return span.p == NULL and raw is None
    return same(span, PyBytes_AS_STRING(raw), <uint64_t>PyBytes_GET_SIZE(raw))


cdef class _Alike:
    """Messages of one exchange and routing key, until they are handed out."""

    cdef Out content
    cdef Out properties   # of the last message
    cdef Py_ssize_t count
    cdef bytes exchange
    cdef bytes routing_key
    cdef list found

    def __cinit__(self):
        self.found = []
        self.exchange = b""

    def __dealloc__(self):
        PyMem_Free(self.content.p)
        PyMem_Free(self.properties.p)

    cdef int flush(self) except -1:
        if self.count:
            self.found.append((
                self.count, self.exchange, self.routing_key,
                PyBytes_FromStringAndSize(<const char *>self.content.p, <Py_ssize_t>self.content.size),
            ))
            self.count = 0
            self.content.size = 0
        return 0

    cdef int name_plain(self, Parsed *m) except -1:
        """A message that has no exchange was published to the default one."""
        cdef bint is_default = m.exchange.p == NULL and PyBytes_GET_SIZE(self.exchange) == 0
        if (not is_default and not equal(m.exchange, self.exchange)) or not equal(m.routing_key, self.routing_key):
            self.flush()
            self.exchange = bytes_of(m.exchange)
            self.routing_key = None if m.routing_key.p == NULL else bytes_of(m.routing_key)
        self.properties.size = 0
        return put_property_list(&self.properties, m)

    cdef int name_asked(self, bytes exchange, bytes routing_key, bytes properties) except -1:
        if exchange != self.exchange or routing_key != self.routing_key:
            self.flush()
            self.exchange = exchange
            self.routing_key = routing_key
        self.properties.size = 0
        return put_bytes(&self.properties, properties)

    cdef int add(self, Span body) except -1:
        put_message(&self.content, Span(self.properties.p, self.properties.size), body)
        self.count += 1
        return 0


cdef Py_ssize_t add_items(
    _Alike alike, const uint8_t *data, uint64_t length, uint64_t *at, Py_ssize_t count, convert
) except -1:
    """How many were taken."""
    cdef Parsed m
    cdef Span head = Span(NULL, 0), item, body
    cdef Py_ssize_t taken = 0
    cdef bytes asked_body
    while taken < count and at[0] < length and not data[at[0]] & 0x80:
        if not take_sized(data, length, at, &item):
            raise ValueError(f"damaged items: one at {at[0]} reaches beyond {length} bytes")
        if (
            head.size and item.size >= head.size and memcmp(item.p, head.p, head.size) == 0
            and take_data(item.p, item.size, head.size, &body)
        ):
            alike.add(body)
        else:
            forget(&m)
            if parse(item.p, item.size, &m):
                alike.name_plain(&m)
                alike.add(m.body)
                head = Span(item.p, m.head)
            else:
                exchange, routing_key, properties, asked_body, head_size = convert(bytes_of(item))
                alike.name_asked(exchange, routing_key, properties)
                alike.add(span_of(asked_body))
                head = Span(item.p, head_size)
        taken += 1
    return taken


def messages(data, Py_ssize_t position, Py_ssize_t count, convert):
    """See native/amqp10_items.py."""
    cdef Py_buffer view
    cdef _Alike alike = _Alike()
    cdef Py_ssize_t taken
    cdef uint64_t at
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if position < 0 or position > view.len:
            raise ValueError(f"damaged items: none at {position} of {view.len} bytes")
        at = <uint64_t>position
        taken = add_items(alike, <const uint8_t *>view.buf, <uint64_t>view.len, &at, count, convert)
        alike.flush()
        return alike.found, <Py_ssize_t>at, taken
    finally:
        PyBuffer_Release(&view)
