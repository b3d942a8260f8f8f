# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/frame_split.py, delivery_split.py and alike.py: same names, same answers, no object per message.

A run is found in a first walk that only reads, and copied in a second one, into a bytes object of the exact size.
Positions and lengths are unsigned 64-bit, and every read is preceded by a comparison with the buffer's end.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from native._message_layout cimport Message, damaged, message_at
from native._table_values cimport value_size

cdef enum:
    PUBLISH = 1
    ACK = 2
    FRAME = 3
    DELIVERY = 4

    LOOK_CC = 1
    LOOK_REPLY_TO = 2
    LOOK_HEADERS = 4
    LOOK_ALONE = 3

    RUN_MESSAGES_MAX = 8192
    RUN_CONTENT_BYTES_MAX = 1 << 20

    FRAME_METHOD = 1
    FRAME_HEADER = 2
    FRAME_BODY = 3
    FRAME_HEARTBEAT = 8
    FRAME_END = 0xCE
    FRAME_HEAD_SIZE = 7
    FRAME_OVERHEAD = 8
    CONTENT_HEAD_SIZE = 12
    LENGTHS_SIZE = 8

    # What reading a frame can come to.
    WHOLE = 0
    ARRIVING = 1
    UNKNOWN_TYPE = 2
    TOO_LARGE = 3
    WRONG_END = 4
    NOT_PLAIN = 5

cdef uint64_t NO_FRAME_MAX = 0x7FFFFFFF
cdef uint64_t CONTENT_LEN_MAX = 0xFFFFFFFF
cdef const char *DIRECT_REPLY_TO = b"amq.rabbitmq.reply-to"
cdef uint64_t DIRECT_REPLY_TO_LEN = 21


cdef struct Frame:
    int kind
    uint32_t channel
    uint32_t size
    uint64_t start  # of its payload
    uint64_t next   # where the following frame starts


cdef struct Span:
    const uint8_t *at  # NULL = absent
    uint64_t len


cdef struct Looked:
    int persistent
    int priority
    int look
    Span expiration
    Span user_id


cdef struct Content:
    Span props
    uint64_t body_len
    uint64_t end


cdef struct Run:
    uint64_t start   # the first method frame
    uint32_t channel
    Span method
    Span props       # of the last message
    Looked agreed
    int look
    uint64_t first_tag  # of a run of deliveries
    uint32_t count   # 0 = there is no run
    uint64_t content_len
    uint64_t body_bytes


cdef struct Acks:
    bint pending
    uint32_t channel
    uint64_t first
    uint64_t last
    bint multiple


cdef struct Splitter:
    const uint8_t *bytes
    uint64_t len
    uint64_t frame_max
    uint64_t message_size_max
    uint64_t assemble_max
    bint deliveries  # contents begin with Basic.Deliver, and not with Basic.Publish
    Run run
    Acks acks


cdef inline uint32_t u16(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 8) | p[1]


cdef inline uint32_t u32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t u64(const uint8_t *p) noexcept nogil:
    return (<uint64_t>u32(p) << 32) | u32(p + 4)


cdef inline void put_u32le(uint8_t *p, uint64_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = (value >> 8) & 0xFF
    p[2] = (value >> 16) & 0xFF
    p[3] = (value >> 24) & 0xFF


cdef inline bint same(Span a, Span b) noexcept nogil:
    """Equal bytes, or both absent."""
    if a.at == NULL or b.at == NULL:
        return a.at == b.at
    return a.len == b.len and memcmp(a.at, b.at, a.len) == 0


cdef inline Span span(const uint8_t *at, uint64_t length) noexcept nogil:
    cdef Span result
    result.at = at
    result.len = length
    return result


cdef inline int frame_at(Splitter *s, uint64_t position, Frame *frame) noexcept nogil:
    cdef const uint8_t *head = s.bytes + position
    if s.len - position < FRAME_HEAD_SIZE:
        return ARRIVING
    frame.kind = head[0]
    frame.channel = u16(head + 1)
    frame.size = u32(head + 3)
    frame.start = position + FRAME_HEAD_SIZE
    if not (FRAME_METHOD <= frame.kind <= FRAME_BODY or frame.kind == FRAME_HEARTBEAT):
        return UNKNOWN_TYPE
    if frame.size > s.frame_max:
        return TOO_LARGE
    if s.len - frame.start <= frame.size:
        return ARRIVING
    frame.next = frame.start + frame.size + 1
    if s.bytes[frame.next - 1] != FRAME_END:
        return WRONG_END
    return WHOLE


cdef bint is_whole_publish(const uint8_t *p, uint64_t length) noexcept nogil:
    cdef uint64_t exchange_end
    if length < 9 or u32(p) != 0x003C0028:
        return False
    exchange_end = 7 + <uint64_t>p[6]
    return exchange_end < length and exchange_end + 2 + p[exchange_end] == length


cdef bint is_whole_deliver(const uint8_t *p, uint64_t length) noexcept nogil:
    """ids u32 | consumer tag short string | delivery tag u64 | redelivered u8 | exchange | routing key, short strings"""
    cdef uint64_t at
    if length < 16 or u32(p) != 0x003C003C:
        return False
    at = 5 + <uint64_t>p[4] + 9
    if at >= length:
        return False
    at += 1 + <uint64_t>p[at]
    return at < length and at + 1 + p[at] == length


cdef inline bint begins_content(Splitter *s, uint32_t method, const uint8_t *payload, uint64_t length) noexcept nogil:
    if s.deliveries:
        return method == 0x003C003C and is_whole_deliver(payload, length)
    return method == 0x003C0028 and is_whole_publish(payload, length)


cdef inline uint64_t delivery_tag(Span method) noexcept nogil:
    return u64(method.at + 5 + method.at[4])


cdef inline bint continued(Splitter *s, Span payload) noexcept nogil:
    """Whether a message with this method may belong to the run. Of deliveries all but the tag is the same, and that follows."""
    cdef Run *run = &s.run
    cdef uint64_t tag_at
    if not s.deliveries:
        return same(run.method, payload)
    if payload.len != run.method.len or payload.at[4] != run.method.at[4]:
        return False
    tag_at = 5 + <uint64_t>payload.at[4]
    return (
        memcmp(payload.at, run.method.at, tag_at) == 0
        and memcmp(payload.at + tag_at + 8, run.method.at + tag_at + 8, payload.len - tag_at - 8) == 0
        and delivery_tag(payload) == run.first_tag + run.count
    )


cdef int look_at_table(const uint8_t *p, uint64_t length) noexcept nogil:
    """The look of a headers table, or -1 if it is malformed."""
    cdef uint64_t at = 0, key, key_len
    cdef int size
    cdef int look = LOOK_HEADERS if length else 0
    while at < length:
        key_len = p[at]
        key = at + 1
        at = key + key_len
        if at >= length:
            return -1
        size = value_size(p[at])
        at += 1
        if size >= 0:
            at += size
        elif size == -1:
            if length - at < 4:
                return -1
            at += 4 + <uint64_t>u32(p + at)
        else:
            return -1
        if at > length:
            return -1
        if key_len == 2 and p[key] == b'C' and p[key + 1] == b'C':
            look |= LOOK_CC
        elif key_len == 3 and p[key] == b'B' and p[key + 1] == b'C' and p[key + 2] == b'C':
            look |= LOOK_CC
    return look


cdef bint look_at_props(Span props, Looked *out) noexcept nogil:
    """Read what matters of a property list; False if it is malformed."""
    cdef const uint8_t *p = props.at
    cdef uint64_t length = props.len, at = 2, size
    cdef uint32_t flags
    cdef int bit, table_look
    out.persistent = 0
    out.priority = 0
    out.look = 0
    out.expiration = span(NULL, 0)
    out.user_id = span(NULL, 0)
    if length < 2:
        return False
    flags = u16(p)
    if flags & 3:
        return False
    for bit in range(15, 1, -1):
        if not flags & (1 << bit):
            continue
        if bit == 13:  # headers
            if length - at < 4:
                return False
            size = u32(p + at)
            at += 4
            if length - at < size:
                return False
            table_look = look_at_table(p + at, size)
            if table_look < 0:
                return False
            out.look |= table_look
            at += size
            continue
        if bit == 6:  # timestamp
            if length - at < 8:
                return False
            at += 8
            continue
        if at >= length:
            return False
        size = p[at]
        at += 1
        if bit == 12:
            out.persistent = size == 2
            continue
        if bit == 11:
            out.priority = <int>size
            continue
        if length - at < size:
            return False
        if bit == 9:  # reply-to
            if size >= DIRECT_REPLY_TO_LEN and memcmp(p + at, DIRECT_REPLY_TO, DIRECT_REPLY_TO_LEN) == 0:
                out.look |= LOOK_REPLY_TO
        elif bit == 8:
            out.expiration = span(p + at, size)
        elif bit == 4:
            out.user_id = span(p + at, size)
        at += size
    return at == length


cdef inline int waits(Splitter *s, uint64_t position, uint64_t end_min) noexcept nogil:
    """Whether to wait for a content that starts at position and reaches at least to end_min."""
    if s.len - position < s.assemble_max and end_min - position <= s.assemble_max:
        return ARRIVING
    return NOT_PLAIN


cdef int content_of(Splitter *s, uint64_t position, Frame *method, Content *out) noexcept nogil:
    """The whole message that a publish method begins, without interruption: WHOLE, ARRIVING or NOT_PLAIN."""
    cdef Frame header, body
    cdef const uint8_t *head
    cdef uint64_t missing
    cdef int state = frame_at(s, method.next, &header)
    if state == ARRIVING:
        return waits(s, position, method.next)
    if state != WHOLE or header.kind != FRAME_HEADER or header.channel != method.channel or header.size < 14:
        return NOT_PLAIN
    head = s.bytes + header.start
    if u32(head) != 0x003C0000 or u64(head + 4) > s.message_size_max:
        return NOT_PLAIN
    out.body_len = missing = u64(head + 4)
    out.props = span(head + CONTENT_HEAD_SIZE, header.size - CONTENT_HEAD_SIZE)
    out.end = header.next
    while missing:
        state = frame_at(s, out.end, &body)
        if state == ARRIVING:
            return waits(s, position, out.end + missing + FRAME_OVERHEAD)
        if state != WHOLE or body.kind != FRAME_BODY or body.channel != method.channel or body.size > missing:
            return NOT_PLAIN
        out.end = body.next
        missing -= body.size
    return WHOLE


cdef inline bint agrees(Looked *a, Looked *b) noexcept nogil:
    return (
        a.persistent == b.persistent
        and a.priority == b.priority
        and same(a.expiration, b.expiration)
        and same(a.user_id, b.user_id)
    )


cdef bint take_message(Splitter *s, uint64_t position, Frame *method, Content *message, list items) except -1:
    """Put a message into the run, or begin one; False if its properties are malformed."""
    cdef Run *run = &s.run
    cdef Looked looked
    cdef Span payload = span(s.bytes + method.start, method.size)
    cdef uint64_t size = LENGTHS_SIZE + message.props.len + message.body_len
    cdef bint known = run.count and same(run.props, message.props)  # then nothing is looked at again
    if not known and not look_at_props(message.props, &looked):
        return False
    if known:
        looked = run.agreed
    if not (
        run.count
        and run.channel == method.channel
        and not ((run.look | looked.look) & LOOK_ALONE)
        and run.count < RUN_MESSAGES_MAX
        and run.content_len + size <= RUN_CONTENT_BYTES_MAX
        and continued(s, payload)
        and (known or agrees(&run.agreed, &looked))
    ):
        flush(s, items)
        run.start = position
        run.channel = method.channel
        run.method = payload
        if s.deliveries:
            run.first_tag = delivery_tag(payload)
        run.look = 0
        run.count = 0
        run.content_len = 0
        run.body_bytes = 0
    run.agreed = looked
    run.look |= looked.look
    run.props = message.props
    run.count += 1
    run.content_len += size
    run.body_bytes += message.body_len
    return True


cdef object span_bytes(Span part):
    if part.at == NULL:
        return None
    return PyBytes_FromStringAndSize(<const char *>part.at, <Py_ssize_t>part.len)


cdef bytes run_content(Splitter *s):
    """Walk over the run's frames again, known to be good by now, and copy what they hold."""
    cdef Run *run = &s.run
    cdef bytes content = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>run.content_len)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(content)
    cdef uint64_t at = run.start, missing
    cdef uint32_t left = run.count, size
    cdef const uint8_t *head
    while left:
        at += FRAME_OVERHEAD + <uint64_t>u32(s.bytes + at + 3)
        size = u32(s.bytes + at + 3)
        head = s.bytes + at + FRAME_HEAD_SIZE
        missing = u64(head + 4)
        put_u32le(out, size - CONTENT_HEAD_SIZE)
        put_u32le(out + 4, missing)
        out += LENGTHS_SIZE
        memcpy(out, head + CONTENT_HEAD_SIZE, size - CONTENT_HEAD_SIZE)
        out += size - CONTENT_HEAD_SIZE
        at += FRAME_OVERHEAD + <uint64_t>size
        while missing:
            size = u32(s.bytes + at + 3)
            memcpy(out, s.bytes + at + FRAME_HEAD_SIZE, size)
            out += size
            missing -= size
            at += FRAME_OVERHEAD + <uint64_t>size
        left -= 1
    return content


cdef tuple delivery_item(Splitter *s):
    cdef Run *run = &s.run
    cdef const uint8_t *p = run.method.at
    cdef const uint8_t *exchange = p + 5 + p[4] + 9
    cdef const uint8_t *routing_key = exchange + 1 + exchange[0]
    return (
        DELIVERY, run.channel, span_bytes(span(p + 5, p[4])), run.first_tag, (exchange[-1] & 1) != 0,
        span_bytes(span(exchange + 1, exchange[0])), span_bytes(span(routing_key + 1, routing_key[0])),
        run.count, run_content(s), run.body_bytes, run.agreed.persistent != 0, run.agreed.priority,
        span_bytes(run.agreed.expiration), span_bytes(run.agreed.user_id), run.look,
    )


cdef int flush(Splitter *s, list items) except -1:
    cdef Run *run = &s.run
    if run.count and s.deliveries:
        items.append(delivery_item(s))
        run.count = 0
    if run.count:
        items.append((
            PUBLISH, run.channel, span_bytes(run.method), run.count, run_content(s), run.body_bytes,
            run.agreed.persistent != 0, run.agreed.priority,
            span_bytes(run.agreed.expiration), span_bytes(run.agreed.user_id), run.look,
        ))
        run.count = 0
    if s.acks.pending:
        items.append((ACK, s.acks.channel, s.acks.first, s.acks.last, s.acks.multiple != 0))
        s.acks.pending = False
    return 0


cdef int take_ack(Splitter *s, uint32_t channel, uint64_t tag, bint multiple, list items) except -1:
    cdef Acks *acks = &s.acks
    if acks.pending and acks.channel == channel and acks.multiple == multiple and acks.last != 0:
        if multiple and tag > acks.last:
            acks.first = acks.last = tag
            return 0
        if not multiple and tag == acks.last + 1 and tag != 0:
            acks.last = tag
            return 0
    flush(s, items)
    acks.pending = True
    acks.channel = channel
    acks.first = acks.last = tag
    acks.multiple = multiple
    return 0


cdef tuple frame_error(Splitter *s, int state, Frame *frame):
    if state == UNKNOWN_TYPE:
        text = f"FRAME_ERROR - unknown frame type {frame.kind} on channel {frame.channel}"
    elif state == TOO_LARGE:
        text = (
            f"FRAME_ERROR - frame of type {frame.kind} on channel {frame.channel} has {frame.size} payload bytes, "
            f"frame_max is {s.frame_max}"
        )
    else:
        text = (
            f"FRAME_ERROR - frame of type {frame.kind} on channel {frame.channel} ends in {s.bytes[frame.next - 1]}, "
            f"expected {<int>FRAME_END}"
        )
    return 501, text


cdef tuple split_all(Splitter *s, uint64_t position):
    cdef list items = []
    cdef Frame frame
    cdef Content message
    cdef const uint8_t *payload
    cdef uint32_t method
    cdef int state, content_state
    while True:
        state = frame_at(s, position, &frame)
        if state != WHOLE:
            break
        payload = s.bytes + frame.start
        method = u32(payload) if frame.kind == FRAME_METHOD and frame.size >= 4 else 0
        if begins_content(s, method, payload, frame.size):
            content_state = content_of(s, position, &frame, &message)
            if content_state == ARRIVING:
                break
            if content_state == WHOLE and take_message(s, position, &frame, &message, items):
                position = message.end
                continue
        elif method == 0x003C0050 and frame.size == 13:
            take_ack(s, frame.channel, u64(payload + 4), payload[12] & 1, items)
            position = frame.next
            continue
        flush(s, items)
        items.append((
            FRAME, frame.kind, frame.channel, PyBytes_FromStringAndSize(<const char *>payload, <Py_ssize_t>frame.size)
        ))
        position = frame.next
    flush(s, items)
    return items, position, None if state <= ARRIVING else frame_error(s, state, &frame)


cdef tuple split_buffer(
    object buffer, Py_ssize_t start, uint64_t frame_max, uint64_t message_size_max, uint64_t assemble_max, bint deliveries
):
    cdef Py_buffer view
    cdef Splitter s
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= view.len:
            raise ValueError(f"start is {start}, outside of a buffer of {view.len} bytes")
        s.bytes = <const uint8_t *>view.buf
        s.len = <uint64_t>view.len
        s.frame_max = frame_max if frame_max else NO_FRAME_MAX
        s.message_size_max = min(message_size_max, CONTENT_LEN_MAX)
        s.assemble_max = assemble_max
        s.deliveries = deliveries
        s.run.count = 0
        s.acks.pending = False
        return split_all(&s, <uint64_t>start)
    finally:
        PyBuffer_Release(&view)


def split(buffer, Py_ssize_t start, uint64_t frame_max, uint64_t message_size_max, uint64_t assemble_max=65536):
    """See native/frame_split.py."""
    return split_buffer(buffer, start, frame_max, message_size_max, assemble_max, False)


def split_deliveries(
    buffer, Py_ssize_t start, uint64_t frame_max, uint64_t message_size_max, uint64_t assemble_max=65536
):
    """See native/delivery_split.py."""
    return split_buffer(buffer, start, frame_max, message_size_max, assemble_max, True)


def parse_publish(method_payload):
    """See native/frame_split.py."""
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef uint64_t exchange_end, routing_key_end
    PyObject_GetBuffer(method_payload, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf
        if not is_whole_publish(p, <uint64_t>view.len):
            raise syntax_error(f"malformed basic.publish of {view.len} bytes")
        exchange_end = 7 + <uint64_t>p[6]
        routing_key_end = exchange_end + 1 + p[exchange_end]
        try:
            exchange = p[7:exchange_end].decode("utf-8")
            routing_key = p[exchange_end + 1:routing_key_end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise syntax_error("exchange or routing key of basic.publish is not UTF-8") from error
        return exchange, routing_key, (p[routing_key_end] & 1) != 0, (p[routing_key_end] & 2) != 0
    finally:
        PyBuffer_Release(&view)


def look_at(props):
    """See native/frame_split.py."""
    cdef Py_buffer view
    cdef Looked looked
    from native.frame_split import Look

    PyObject_GetBuffer(props, &view, PyBUF_SIMPLE)
    try:
        if not look_at_props(span(<const uint8_t *>view.buf, <uint64_t>view.len), &looked):
            raise syntax_error(f"malformed property list of {view.len} bytes")
        return Look(
            looked.persistent != 0, looked.priority,
            span_bytes(looked.expiration), span_bytes(looked.user_id), looked.look,
        )
    finally:
        PyBuffer_Release(&view)


cdef tuple alike_run(Run *run, uint64_t end):
    return (
        run.count, end, run.body_bytes, run.agreed.persistent != 0, run.agreed.priority,
        span_bytes(run.agreed.expiration), span_bytes(run.agreed.user_id), run.look,
    )


def alike_runs(content, Py_ssize_t position, Py_ssize_t count):
    """See native/alike.py."""
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef Message m
    cdef Run run
    cdef Looked looked
    cdef Span props
    cdef bint known
    cdef list runs = []
    cdef uint64_t at = <uint64_t>position
    run.count = 0
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf
        while count > 0:
            if not message_at(p, <uint64_t>view.len, at, &m):
                raise damaged(p, <uint64_t>view.len, <Py_ssize_t>at)
            props = span(p + m.props, m.props_len)
            known = run.count and same(run.props, props)
            if known:
                looked = run.agreed
            elif not look_at_props(props, &looked):
                raise syntax_error(f"malformed property list of {m.props_len} bytes")
            if not (
                run.count
                and not ((run.look | looked.look) & LOOK_ALONE)
                and run.count < RUN_MESSAGES_MAX
                and m.end - run.start <= RUN_CONTENT_BYTES_MAX
                and (known or agrees(&run.agreed, &looked))
            ):
                if run.count:
                    runs.append(alike_run(&run, at))
                run.start = at
                run.count = 0
                run.look = 0
                run.body_bytes = 0
            run.agreed = looked
            run.look |= looked.look
            run.props = props
            run.count += 1
            run.body_bytes += m.body_len
            at = m.end
            count -= 1
        if run.count:
            runs.append(alike_run(&run, at))
        return runs
    finally:
        PyBuffer_Release(&view)


cdef object syntax_error(str text):
    from native.frame_split import FrameError  # not at import: the definition imports its twin

    return FrameError(502, "SYNTAX_ERROR - " + text)
