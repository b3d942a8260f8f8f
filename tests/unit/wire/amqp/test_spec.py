"""The table of methods: against pamqp both ways, and against broken bytes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands, frame

from wire.amqp import spec
from wire.amqp.argument_types import MalformedArguments

TABLE: dict[str, Any] = {"a": 1, "big": 2**40, "s": "text", "n": None, "t": True, "l": [1, "x", {"k": -5}], "f": 0.5}
SAMPLES: dict[str, Any] = {
    "octet": 9, "short": 513, "long": 70_000, "longlong": 2**40, "shortstr": "näme", "table": TABLE, "bit": True,
}  # fmt: skip
# pamqp stands for the protocol itself here, and has no access class.
KNOWN_TO_PAMQP = sorted(name for name in spec.METHODS if not name.startswith("access."))
# Where pamqp's word for a thing is another.
PAMQP_NAMES = {
    "exchange.type": "exchange_type", "basic.global": "global_", "no_wait": "nowait", "global": "global_",
    "type": "exchange_type",
}  # fmt: skip


def values_of(name: str, samples: dict[str, Any]) -> dict[str, Any]:
    return {
        field: samples[step.kind] if step.kind != "longstr" else b"long"
        for step in spec.METHODS[name].steps
        for field in step.names
        if not field.startswith("reserved_")
    }


def in_pamqp(name: str) -> type[Any]:
    method = spec.METHODS[name]
    found: type[Any] = commands.INDEX_MAPPING[method.class_id << 16 | method.method_id]
    return found


@pytest.mark.parametrize("name", KNOWN_TO_PAMQP)
def test_pamqp_reads_what_we_write(name: str) -> None:
    values = values_of(name, SAMPLES)
    if "mechanism" in values:
        values["mechanism"] = "PLAIN"
    payload = spec.encode(name, **values)
    method = in_pamqp(name)()
    method.unmarshal(payload[4:])
    for field, value in values.items():
        theirs = getattr(method, PAMQP_NAMES.get(field, field))
        assert theirs == (value.decode() if isinstance(value, bytes) else value), field


@pytest.mark.parametrize("name", KNOWN_TO_PAMQP)
def test_what_we_write_we_read(name: str) -> None:
    for bit in (True, False):
        values = values_of(name, {**SAMPLES, "bit": bit})
        payload = spec.encode(name, **values)
        method = spec.method_of(payload)
        assert method.name == name
        read = spec.decode(method, payload)
        assert {field: value for field, value in read.items() if not field.startswith("reserved_")} == values


def test_we_read_what_pamqp_writes() -> None:
    sent = commands.Queue.Declare(queue="q", durable=True, auto_delete=True, arguments={"x-max-length": 10})
    payload = frame.marshal(sent, 1)[7:-1]
    arguments = spec.decode(spec.method_of(payload), payload)
    assert (arguments["queue"], arguments["durable"], arguments["exclusive"]) == ("q", True, False)
    assert (arguments["auto_delete"], arguments["arguments"]) == (True, {"x-max-length": 10})


@pytest.mark.parametrize("name", sorted(spec.METHODS))
def test_every_prefix_and_every_extra_byte_is_refused(name: str) -> None:
    payload = spec.encode(name, **values_of(name, SAMPLES))
    method = spec.method_of(payload)
    for end in range(4, len(payload)):
        with pytest.raises(MalformedArguments):
            spec.decode(method, payload[:end])
    with pytest.raises(MalformedArguments, match="1 bytes after the arguments"):
        spec.decode(method, payload + b"\x00")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(spec.METHODS)), st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(name: str, arguments: bytes) -> None:
    method = spec.METHODS[name]
    with contextlib.suppress(MalformedArguments):
        spec.decode(method, method.head + arguments)


def test_unknown_methods_and_stumps() -> None:
    with pytest.raises(spec.UnknownMethod, match=r"unknown method 60\.999"):
        spec.method_of(b"\x00\x3c\x03\xe7")
    with pytest.raises(MalformedArguments, match="a method frame of 3 bytes"):
        spec.method_of(b"\x00\x3c\x00")


def test_what_is_missing_or_too_much_is_our_own_fault() -> None:
    with pytest.raises(AssertionError, match="argument consumer_tag is missing"):
        spec.encode("basic.consume-ok")
    with pytest.raises(AssertionError, match=r"basic\.qos-ok has no argument tag"):
        spec.encode("basic.qos-ok", tag=1)
