"""What an entry of the metadata log says, in words."""

from __future__ import annotations

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, encode_command
from broker.catalog.commands.metadata_entry import Origin, WhenAndWho, encode_entry
from broker.operations.entry_words import WITHHELD, words_of
from broker.records import BindingRecord, ExchangeRecord, ParameterRecord

ORIGIN = Origin(2, 9, 5, 4)


def what(command: Command) -> str:
    return words_of(encode_entry(ORIGIN, encode_command(command))).what


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (commands.DeclareQueue("/", "q"), "declare queue 'q' in vhost '/', durable"),
        (
            commands.DeclareQueue("/", "q", "classic", durable=False, exclusive=True, auto_delete=True),
            "declare classic queue 'q' in vhost '/', exclusive, auto_delete",
        ),
        (
            commands.DeclareQueue("/", "q", arguments={"x-queue-type": "stream"}),
            "declare stream queue 'q' in vhost '/', durable, arguments {'x-queue-type': 'stream'}",
        ),
        (commands.DeleteQueue("/", "q"), "delete queue 'q' in vhost '/'"),
        (
            commands.DeclareExchange(ExchangeRecord("/", "e", "topic", internal=True)),
            "declare topic exchange 'e' in vhost '/', durable, internal",
        ),
        (commands.DeleteExchange("/", "e"), "delete exchange 'e' in vhost '/'"),
        (
            commands.Bind(BindingRecord("/", "e", "q", "queue", "k.#", {"n": 1})),
            "bind queue 'q' to exchange 'e' in vhost '/' with key 'k.#', arguments {'n': 1}",
        ),
        (
            commands.Unbind(BindingRecord("/", "e", "e2", "exchange", "")),
            "unbind exchange 'e2' from exchange 'e' in vhost '/' with key ''",
        ),
        (
            commands.SetQueueMembers("/", "q", 7, (1 << 32, 2 << 32), 40),
            "queue 'q' in vhost '/' has 2 members, as of entry 40 of its log",
        ),
        (commands.NodeStarted("n1", 1, 9), "node 'n1' has started"),
        (commands.NodeLost("n1", 9), "node 'n1' was away too long: its exclusive and transient queues go"),
        (commands.DeleteVhost("v"), "delete vhost 'v'"),
    ],
)
def test_a_command_is_told_in_words(command: Command, words: str) -> None:
    assert what(command) == words


def test_the_value_of_a_parameter_is_not_told() -> None:
    """It may be the address of another broker, with a password."""
    told = what(commands.SetParameter(ParameterRecord("/", "upstream", "u", "amqp://ann:SECRET@host")))
    assert "SECRET" not in told and "'u'" in told


def test_arguments_are_told_up_to_a_limit() -> None:
    told = what(commands.DeclareQueue("/", "q", arguments={"x": "long" * 10_000}))
    assert len(told) < 3_000 and told.endswith("bytes)")


def test_when_and_for_whom_is_told_where_the_entry_says_it() -> None:
    command = commands.DeleteQueue("/", "q")
    said = words_of(encode_entry(ORIGIN, encode_command(command), WhenAndWho(5, 7)))
    assert (said.command, said.origin, said.said) == (command, ORIGIN, WhenAndWho(5, 7))
    assert words_of(encode_entry(ORIGIN, encode_command(command))).said is None


def test_what_was_withheld_and_what_is_not_known_has_no_command() -> None:
    whole = encode_entry(ORIGIN, encode_command(commands.DeleteQueue("/", "q")))
    head = whole[: len(encode_entry(ORIGIN, b""))]
    assert words_of(head + bytes(len(whole) - len(head))) == (WITHHELD, None, None, None)
    assert words_of(b"").command is None
    unknown = words_of(b"\x09" + whole[1:])
    assert unknown.command is None and "version 09" in unknown.what
