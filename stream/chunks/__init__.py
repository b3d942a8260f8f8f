"""What a stream consists of, as bytes, and what nodes say to its leader: pure functions, nothing of a group or a queue.

    chunk.py            what clients get                        bloom.py           which filter values may be in it
    stored_form.py      messages of AMQP 0-9-1 in it            filters.py         which chunks and messages a reader wants
    sub_batches.py      sub-batches, taken apart                published_parts.py what clients publish, on its way into a chunk
    entries.py          what the log consists of                publish_ops.py     messages, as they are proposed
                                                                store_ops.py       stored offsets, as they are proposed

What is in the log stays readable: a format changes with a version of its own.
"""
