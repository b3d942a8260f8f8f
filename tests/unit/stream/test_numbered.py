"""Messages of AMQP 0-9-1 that their publisher has numbered, as parts of chunks."""

from __future__ import annotations

from broker.messages.message import Run
from native.content import encode
from stream.chunks.published_parts import PORTION_MESSAGES_MAX, numbered_run, parts_of_items, parts_of_run
from wire.stream.publish_frame import unpack_ids


def test_each_item_has_the_number_that_its_publisher_gave_it_however_the_run_is_cut() -> None:
    count = PORTION_MESSAGES_MAX + 3
    run = Run("", "s", encode(b"\0\0", b"x") * count, count, count)
    parts = parts_of_items("till", numbered_run(17, run))
    assert [part.item_count for part in parts] == [PORTION_MESSAGES_MAX, 3]
    assert [one for part in parts for one in unpack_ids(part.ids)] == list(range(17, 17 + count))
    assert {part.reference for part in parts} == {"till"}
    assert [part._replace(reference="", ids=b"") for part in parts] == parts_of_run(run)
