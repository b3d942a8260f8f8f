"""The records that name the actors and queues of a log file, and bytes that are none."""

from __future__ import annotations

import pytest

from broker.actors import ActorKind, GoneReason
from storage.history.name_records import (
    TEXT_BYTES_MAX,
    ActorRow,
    NameRow,
    decode_actor,
    decode_gone,
    decode_name,
    encode_actor,
    encode_gone,
    encode_name,
)

CONNECTION = ActorRow(
    ActorKind.CONNECTION, 1764000000000, user="ann", vhost="/", address="10.0.0.7:50112", connection_name="orders",
    product="pika",
)  # fmt: skip
CONSUMER = ActorRow(ActorKind.CONSUMER, 7, 2, tag="ctag1.x", queue="orders.é", prefetch=1 << 31, no_ack=True)
# As they were first written, and are to be read for ever.
OLD_CONSUMER = bytes.fromhex(
    "0700000000000000" "02000000" "00000080" "03" "01" "0000" "0000" "0000" "0000" "0000"
    "0700" "63746167312e78" "0900" "6f72646572732ec3a9"
)  # fmt: skip
OLD_NAME = bytes.fromhex("060071756f72756d01002f03006a6f62")


@pytest.mark.parametrize("row", [CONNECTION, CONSUMER, ActorRow(ActorKind.NODE)])
def test_an_actor_is_read_as_it_was_written(row: ActorRow) -> None:
    assert decode_actor(encode_actor(row)) == row


def test_records_of_the_first_version_are_read() -> None:
    assert encode_actor(CONSUMER) == OLD_CONSUMER
    assert decode_actor(OLD_CONSUMER) == CONSUMER
    assert encode_name(NameRow("quorum", "/", "job")) == OLD_NAME
    assert decode_name(OLD_NAME) == NameRow("quorum", "/", "job")
    assert decode_gone(encode_gone(GoneReason.TIMED_OUT)) == GoneReason.TIMED_OUT == 5


def test_a_name_longer_than_the_limit_is_cut_between_characters() -> None:
    row = decode_actor(encode_actor(ActorRow(ActorKind.CHANNEL, connection_name="x" + "é" * TEXT_BYTES_MAX)))
    assert row.connection_name == "x" + "é" * ((TEXT_BYTES_MAX - 1) // 2)


def test_a_name_that_is_no_text_comes_back_as_it_was() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert decode_name(encode_name(NameRow("classic", "/", name))).name == name


@pytest.mark.parametrize("size", range(len(OLD_CONSUMER)))
def test_an_actor_that_ends_too_early_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"an actor of|ends behind byte"):
        decode_actor(OLD_CONSUMER[:size])


@pytest.mark.parametrize("size", range(len(OLD_NAME)))
def test_a_name_that_ends_too_early_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="ends behind byte"):
        decode_name(OLD_NAME[:size])
    with pytest.raises(ValueError, match="without a reason"):
        decode_gone(b"")
