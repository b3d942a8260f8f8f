"""Commands and records as bytes: they come back, they can grow, and what is not known is said."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from broker.catalog.catalog import _APPLY
from broker.catalog.commands import catalog_commands
from broker.catalog.commands.catalog_commands import (
    NUMBERS,
    VERSION,
    AddNode,
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    DeleteTopicPermission,
    JoinNode,
    NodeLost,
    NodeStarted,
    PutNode,
    PutPolicy,
    PutUser,
    PutVhost,
    ReleaseClaim,
    RemoveNode,
    RenewClaims,
    SetClusterId,
    SetParameter,
    SetQueueMembers,
    SetVhostLimits,
    TakeClaim,
    UnknownVersion,
    UseQueue,
    decode_command,
    decode_record,
    encode_command,
    encode_record,
)
from broker.errors import PreconditionFailed
from broker.records import (
    BindingRecord,
    CatalogHead,
    ClaimRecord,
    ExchangeRecord,
    NodeRecord,
    ParameterRecord,
    PolicyRecord,
    QueueRecord,
    UserRecord,
    VhostRecord,
)
from wire.amqp.tables import Timestamp

ARGUMENTS: dict[str, Any] = {"a": 1, "t": Timestamp(5), "d": Decimal("1.5"), "b": b"\xff", "l": [None, {"x": True}]}
COMMANDS: list[Command] = [
    PutVhost(VhostRecord("v", "what for", ("a", "b"), "quorum", True, {"max-queues": 3}, True)),
    PutUser(UserRecord("u", None, ("monitoring",))),
    DeclareExchange(ExchangeRecord("v", "x", "topic", False, True, True, ARGUMENTS)),
    DeclareQueue("v", "ü", "classic", False, True, True, ARGUMENTS, "node-1", "c1"),
    DeleteQueue("v", "q", 7),
    DeleteQueue("v", "q", 7, 2),
    UseQueue("v", "q", 7),
    DeleteTopicPermission("u", "v"),
    Bind(BindingRecord("v", "x", "q", "queue", "a.#", ARGUMENTS), "c1"),
    PutPolicy(PolicyRecord("v", "p", "^a", "queues", -1, {"max-length": 5, "overflow": "drop-head"}, True)),
    SetParameter(ParameterRecord("v", "shovel", "s", {"uris": ["a", "b"], "n": None})),
    SetVhostLimits("v", {"max-connections": 1}),
    DeclareQueue("v", "q", "quorum", home="node-1", members=(1 << 32, 2 << 32 | 2**32 - 1), counted=True),
    SetQueueMembers("v", "q", 7, (1 << 32,)),
    SetClusterId("0123"),
    AddNode(NodeRecord("n", 0, 2**32 - 1, "127.0.0.1:5681", "ram", "west", 2**41, True)),
    PutNode(NodeRecord("n", 3, 0, "[::1]:5681")),
    RemoveNode("n"),
    NodeStarted("n", 5, 2**41, {"queues": 5}),
    NodeLost("n", 2**41),
    JoinNode(NodeRecord("n", 0, 0, "127.0.0.1:5681", joiner="ab"), "cd", 2**41),
    TakeClaim(ClaimRecord("shovel", "v", "s", "n", 3), "m", 7),
    RenewClaims("n"),
    ReleaseClaim(ClaimRecord("shovel", "", "s", "n", 3)),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_comes_back_as_it_was(command: Command) -> None:
    encoded = encode_command(command)
    assert encoded[0] == VERSION
    decoded = decode_command(encoded)
    assert decoded == command
    assert repr(decoded) == repr(command)  # to the type of every value


def test_a_record_comes_back_as_it_was() -> None:
    record = QueueRecord("/", "q", "classic", True, False, False, ARGUMENTS, 2**40, "home", None, (1, 2))
    assert decode_record(QueueRecord, encode_record(record)) == record


def test_the_head_of_a_catalog_comes_back_as_it_was() -> None:
    head = CatalogHead("0123", 2**40, 7, {"queues": 5})
    assert decode_record(CatalogHead, encode_record(head)) == head


def test_numbers_of_commands_never_change() -> None:
    assert {number: kind.__name__ for number, kind in NUMBERS.items()} == {
        1: "PutVhost", 2: "DeleteVhost", 3: "PutUser", 4: "DeleteUser", 5: "PutPermission", 6: "DeletePermission",
        7: "PutTopicPermission", 8: "DeleteTopicPermission", 9: "DeclareExchange", 10: "DeleteExchange",
        11: "DeclareQueue", 12: "DeleteQueue", 13: "Bind", 14: "Unbind", 15: "PutPolicy", 16: "DeletePolicy",
        17: "SetParameter", 18: "ClearParameter", 19: "SetVhostLimits", 20: "SetUserLimits",
        21: "SetQueueMembers", 22: "SetClusterId", 23: "AddNode", 24: "PutNode", 25: "RemoveNode", 26: "NodeStarted",
        27: "NodeLost", 28: "JoinNode", 29: "TakeClaim", 30: "RenewClaims", 31: "ReleaseClaim", 32: "ConvertQueue",
        33: "UseQueue",
    }  # fmt: skip


def test_a_field_that_was_added_has_its_default_in_what_was_written_before() -> None:
    written_before = bytes((VERSION,)) + msgspec.msgpack.encode(["/", "x", "direct"])
    assert decode_record(ExchangeRecord, written_before) == ExchangeRecord("/", "x", "direct")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "version missing"),
        (b"\x09", "version 09 of the catalog's format, and 1 is known"),
        (bytes((VERSION,)) + msgspec.msgpack.encode([999]), "no command has the number 999"),
        (bytes((VERSION,)) + b"\x92\x01", "the fields of a record cannot be read: Input data was truncated"),
        (bytes((VERSION,)) + msgspec.msgpack.encode(5), "a int where the fields of a record should be"),
        (bytes((VERSION,)) + msgspec.msgpack.encode([12, "/"]), "DeleteQueue without name"),
    ],
)
def test_what_is_not_known_is_said(data: bytes, text: str) -> None:
    with pytest.raises(UnknownVersion, match=text):
        decode_command(data)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            SetVhostLimits("v", {"max-connections": 2**70}),
            "SetVhostLimits cannot be kept: a number in it has more than 64",
        ),
        (PutPolicy(PolicyRecord("v", "p", "^a", "queues", 2**70, {"max-length": 5})), "more than 64 bits"),
        (PutPolicy(PolicyRecord("v", "p", "^a", "queues", 0, {"max-length": 2**70})), "64 bits"),
        (DeleteQueue("v", b"\xff".decode("utf-8", "surrogateescape")), "a text in it holds half a character"),
        (SetParameter(ParameterRecord("v", "shovel", "s", object())), "SetParameter cannot be kept"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words_of_the_broker(command: Command, why: str) -> None:
    with pytest.raises(PreconditionFailed, match=why):
        encode_command(command)


def test_a_record_whose_table_cannot_be_read_is_refused() -> None:
    kept = encode_record(BindingRecord("v", "x", "q", "queue", "k", {"a": 1}))
    with pytest.raises(
        UnknownVersion, match="the fields of BindingRecord cannot be read: malformed table: unknown type"
    ):
        decode_record(BindingRecord, kept.replace(b"\x01aI", b"\x01a?"))


def test_every_command_can_be_encoded_and_applied() -> None:
    defined = {
        value
        for value in vars(catalog_commands).values()
        if isinstance(value, type) and value.__module__ == catalog_commands.__name__ and value is not UnknownVersion
    }
    assert defined == set(NUMBERS.values())
    assert defined == set(_APPLY)
