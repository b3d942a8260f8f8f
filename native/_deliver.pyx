# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/deliver.py: one walk for the size, one that fills a bytes object of exactly that size."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from native._message_layout cimport Message, damaged, message_at

cdef enum:
    METHOD = 1
    HEADER = 2
    BODY = 3
    FRAME_END = 0xCE
    FRAME_HEAD_SIZE = 7
    FRAME_OVERHEAD = 8
    CONTENT_HEAD_SIZE = 12
    SHORT_MAX = 255
    # ids, three short strings, delivery tag and redelivered, in their frame
    DELIVER_FRAME_SIZE_MAX = 8 + 4 + 3 * 256 + 9
    # ids, reserved, two short strings, bits, in their frame
    PUBLISH_FRAME_SIZE_MAX = 8 + 4 + 2 + 2 * 256 + 1

cdef uint64_t NO_FRAME_MAX = 0x7FFFFFFF
cdef uint64_t FRAME_PAYLOAD_MAX = 0xFFFFFFFF
cdef bytes LAST_END = b"\xce"


# The method frame of a run's deliveries: only the tag in it changes.
cdef struct DeliverFrame:
    uint8_t bytes[DELIVER_FRAME_SIZE_MAX]
    uint64_t size
    uint64_t tag_at


cdef inline uint8_t *put_u16(uint8_t *out, uint32_t value) noexcept nogil:
    out[0] = (value >> 8) & 0xFF
    out[1] = value & 0xFF
    return out + 2


cdef inline uint8_t *put_u32(uint8_t *out, uint64_t value) noexcept nogil:
    put_u16(out, <uint32_t>(value >> 16))
    return put_u16(out + 2, <uint32_t>value)


cdef inline uint8_t *put_u64(uint8_t *out, uint64_t value) noexcept nogil:
    put_u32(out, value >> 32)
    return put_u32(out + 4, <uint32_t>value)


cdef inline uint8_t *put_frame_head(uint8_t *out, int kind, uint32_t channel, uint64_t size) noexcept nogil:
    out[0] = kind
    put_u16(out + 1, channel)
    return put_u32(out + 3, size)


cdef inline uint8_t *put_bytes(uint8_t *out, const uint8_t *source, uint64_t size) noexcept nogil:
    memcpy(out, source, size)
    return out + size


cdef inline uint8_t *put_short(uint8_t *out, bytes value) noexcept:
    out[0] = len(value)
    return put_bytes(out + 1, <const uint8_t *>PyBytes_AS_STRING(value), <uint64_t>len(value))


cdef int check_short(str name, bytes value) except -1:
    if len(value) > SHORT_MAX:
        raise ValueError(f"{name} has {len(value)} bytes, a short string holds 255")
    return 0


cdef uint64_t body_max_of(uint64_t frame_max) except 0:
    if frame_max == 0:
        return NO_FRAME_MAX
    if frame_max <= FRAME_OVERHEAD:
        raise ValueError(f"frame_max is {frame_max}: no body fits beside {<int>FRAME_OVERHEAD} bytes of framing")
    return frame_max - FRAME_OVERHEAD


cdef inline uint64_t content_frames_size(Message *m, uint64_t body_max) noexcept nogil:
    cdef uint64_t bodies = (m.body_len + body_max - 1) // body_max
    return FRAME_OVERHEAD + CONTENT_HEAD_SIZE + m.props_len + bodies * FRAME_OVERHEAD + m.body_len


cdef inline uint8_t *put_header_frame(
    uint8_t *out, const uint8_t *content, Message *m, uint32_t channel
) noexcept nogil:
    out = put_frame_head(out, HEADER, channel, CONTENT_HEAD_SIZE + m.props_len)
    out = put_u32(out, 0x003C0000)
    out = put_u64(out, m.body_len)
    out = put_bytes(out, content + m.props, m.props_len)
    out[0] = FRAME_END
    return out + 1


cdef inline uint8_t *put_content_frames(
    uint8_t *out, const uint8_t *content, Message *m, uint32_t channel, uint64_t body_max
) noexcept nogil:
    cdef uint64_t left = m.body_len, size
    out = put_header_frame(out, content, m, channel)
    while left:
        size = left if left < body_max else body_max
        out = put_frame_head(out, BODY, channel, size)
        out = put_bytes(out, content + (m.end - left), size)
        out[0] = FRAME_END
        out += 1
        left -= size
    return out


cdef uint64_t content_size(
    Py_buffer *view, Py_ssize_t position, Py_ssize_t count, uint64_t body_max
) except? 0:
    """The bytes of header and body frames of `count` messages; ValueError if they are not all there."""
    cdef Message m
    cdef uint64_t total = 0
    while count > 0:
        if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
            raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
        if CONTENT_HEAD_SIZE + m.props_len > FRAME_PAYLOAD_MAX:
            raise ValueError(f"properties of {m.props_len} bytes do not fit into a frame")
        total += content_frames_size(&m, body_max)
        position = <Py_ssize_t>m.end
        count -= 1
    return total


cdef int make_deliver_frame(
    DeliverFrame *frame, Py_ssize_t count, uint32_t channel, bytes consumer_tag, uint64_t first_tag, bint redelivered,
    bytes exchange, bytes routing_key,
) except -1:
    cdef uint8_t *out = frame.bytes
    check_short("consumer tag", consumer_tag)
    check_short("exchange", exchange)
    check_short("routing key", routing_key)
    if count > 0 and first_tag + <uint64_t>(count - 1) < first_tag:
        raise OverflowError(f"{count} delivery tags from {first_tag} on exceed 64 bits")
    frame.size = FRAME_OVERHEAD + 4 + 3 + len(consumer_tag) + 8 + 1 + len(exchange) + len(routing_key)
    out = put_frame_head(out, METHOD, channel, frame.size - FRAME_OVERHEAD)
    out = put_u32(out, 0x003C003C)
    out = put_short(out, consumer_tag)
    frame.tag_at = out - frame.bytes
    out += 8
    out[0] = redelivered
    out = put_short(out + 1, exchange)
    out = put_short(out, routing_key)
    out[0] = FRAME_END
    return 0


cdef inline uint8_t *put_deliver_frame(uint8_t *out, DeliverFrame *frame, uint64_t tag) noexcept nogil:
    put_u64(frame.bytes + frame.tag_at, tag)
    return put_bytes(out, frame.bytes, frame.size)


def deliveries(
    content, Py_ssize_t position, Py_ssize_t count, uint16_t channel, bytes consumer_tag not None, uint64_t first_tag,
    bint redelivered, bytes exchange not None, bytes routing_key not None, uint64_t frame_max,
):
    """See native/deliver.py."""
    cdef Py_buffer view
    cdef Message m
    cdef DeliverFrame deliver
    cdef uint8_t *out
    cdef uint64_t total
    cdef uint64_t body_max = body_max_of(frame_max)
    cdef bytes wire
    if count < 0:
        count = 0
    make_deliver_frame(&deliver, count, channel, consumer_tag, first_tag, redelivered, exchange, routing_key)
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        total = content_size(&view, position, count, body_max) + <uint64_t>count * deliver.size
        wire = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>total)
        out = <uint8_t *>PyBytes_AS_STRING(wire)
        while count > 0:
            if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
                raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
            out = put_deliver_frame(out, &deliver, first_tag)
            out = put_content_frames(out, <const uint8_t *>view.buf, &m, channel, body_max)
            position = <Py_ssize_t>m.end
            first_tag += 1
            count -= 1
        return wire, position
    finally:
        PyBuffer_Release(&view)


cdef bytes head_of(
    const uint8_t *content, Message *m, DeliverFrame *deliver, uint64_t tag, bint ends_body, uint32_t channel,
    uint64_t first_body,
):
    """What stands before the body of a message, from the end of the body frame before it on."""
    cdef uint64_t size = ends_body + deliver.size + FRAME_OVERHEAD + CONTENT_HEAD_SIZE + m.props_len
    cdef bytes head = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(size + (FRAME_HEAD_SIZE if first_body else 0)))
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(head)
    if ends_body:
        out[0] = FRAME_END
        out += 1
    out = put_deliver_frame(out, deliver, tag)
    out = put_header_frame(out, content, m, channel)
    if first_body:
        put_frame_head(out, BODY, channel, first_body)
    return head


cdef bytes next_body_head(uint32_t channel, uint64_t size):
    """What stands between two body frames of a message."""
    cdef uint8_t head[FRAME_OVERHEAD]
    head[0] = FRAME_END
    put_frame_head(head + 1, BODY, channel, size)
    return PyBytes_FromStringAndSize(<const char *>head, FRAME_OVERHEAD)


def large_deliveries(
    bytes content not None, Py_ssize_t position, Py_ssize_t count, uint16_t channel, bytes consumer_tag not None,
    uint64_t first_tag, bint redelivered, bytes exchange not None, bytes routing_key not None, uint64_t frame_max,
):
    """See native/deliver.py."""
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(content)
    cdef uint64_t size, start, body_max = body_max_of(frame_max)
    cdef Py_ssize_t total = 0
    cdef Message m
    cdef DeliverFrame deliver
    cdef bint ends_body = False
    cdef list pieces = []
    cdef bytes head
    if count < 0:
        count = 0
    make_deliver_frame(&deliver, count, channel, consumer_tag, first_tag, redelivered, exchange, routing_key)
    view = memoryview(content)
    while count > 0:
        if not message_at(at, <uint64_t>len(content), <uint64_t>position, &m):
            raise damaged(at, <uint64_t>len(content), position)
        if CONTENT_HEAD_SIZE + m.props_len > FRAME_PAYLOAD_MAX:
            raise ValueError(f"properties of {m.props_len} bytes do not fit into a frame")
        start = m.body
        size = min(m.body_len, body_max)
        head = head_of(at, &m, &deliver, first_tag, ends_body, channel, size)
        ends_body = size > 0
        while size > 0:
            pieces.append(head)
            pieces.append(view[<Py_ssize_t>start:<Py_ssize_t>(start + size)])
            total += len(head) + <Py_ssize_t>size
            start += size
            size = min(m.end - start, body_max)
            head = next_body_head(channel, size) if size > 0 else None
        if head is not None:
            pieces.append(head)
            total += len(head)
        position = <Py_ssize_t>m.end
        first_tag += 1
        count -= 1
    if ends_body:
        pieces.append(LAST_END)
        total += 1
    return pieces, total


def publishes(
    content, Py_ssize_t position, Py_ssize_t count, uint16_t channel, bytes exchange not None,
    bytes routing_key not None, bint mandatory, uint64_t frame_max,
):
    """See native/deliver.py."""
    cdef Py_buffer view
    cdef Message m
    cdef uint8_t publish[PUBLISH_FRAME_SIZE_MAX]
    cdef uint8_t *out = publish
    cdef uint64_t publish_size, total
    cdef uint64_t body_max = body_max_of(frame_max)
    cdef bytes wire
    check_short("exchange", exchange)
    check_short("routing key", routing_key)
    if count < 0:
        count = 0
    publish_size = 4 + 2 + 2 + len(exchange) + len(routing_key) + 1
    out = put_frame_head(out, METHOD, channel, publish_size)
    out = put_u32(out, 0x003C0028)
    out = put_u16(out, 0)
    out = put_short(out, exchange)
    out = put_short(out, routing_key)
    out[0] = mandatory
    out[1] = FRAME_END
    publish_size += FRAME_OVERHEAD

    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        total = content_size(&view, position, count, body_max) + <uint64_t>count * publish_size
        wire = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>total)
        out = <uint8_t *>PyBytes_AS_STRING(wire)
        while count > 0:
            if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
                raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
            out = put_bytes(out, publish, publish_size)
            out = put_content_frames(out, <const uint8_t *>view.buf, &m, channel, body_max)
            position = <Py_ssize_t>m.end
            count -= 1
        return wire, position
    finally:
        PyBuffer_Release(&view)


def content_frames(content, Py_ssize_t position, uint16_t channel, uint64_t frame_max):
    """See native/deliver.py."""
    cdef Py_buffer view
    cdef Message m
    cdef uint64_t body_max = body_max_of(frame_max)
    cdef bytes wire
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        wire = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>content_size(&view, position, 1, body_max))
        if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
            raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
        put_content_frames(<uint8_t *>PyBytes_AS_STRING(wire), <const uint8_t *>view.buf, &m, channel, body_max)
        return wire, <Py_ssize_t>m.end
    finally:
        PyBuffer_Release(&view)
