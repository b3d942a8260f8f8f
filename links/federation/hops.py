"""Headers that say where a message has been, and arguments that say where a binding comes from.

    x-received-from   header of a message: a list of tables, one for each link that it came over, the newest first
                          of an exchange link   uri, exchange, redelivered; cluster-name and vhost of the upstream
                          of a queue link       uri, queue, redelivered; visit-count: how often it came over this link
    x-bound-from      argument of a binding: the same for the links that it was copied over
                          cluster-name, vhost, exchange, hops: over how many links messages may still have to come

Both end loops: a message is dropped where it was before or has come over max-hops links, and a binding is not copied further
than messages would come (broker/exchanges/federation_upstream.py has the rule for messages).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

from broker.exchanges.federation_upstream import RECEIVED_FROM, has_seen, may_travel
from broker.messages.message import LOOK_CC, PROPERTIES_BYTES_MAX
from broker.records import Arguments
from native.content import encode, messages
from wire.amqp.tables import (
    Long,
    TableError,
    decode_value,
    encode_value,
    join_properties,
    join_table,
    split_properties,
    split_table,
)

BOUND_FROM = "x-bound-from"

_EMPTY_TABLE = b"\0\0\0\0"
_LIST_HEAD = struct.Struct(">cI")
_EMPTY_LIST = _LIST_HEAD.pack(b"A", 0)


class DeliveredMessages(Protocol):
    """Messages as the upstream has delivered them."""

    @property
    def content(self) -> bytes: ...

    @property
    def count(self) -> int: ...

    @property
    def redelivered(self) -> bool: ...

    @property
    def exchange(self) -> bytes: ...

    @property
    def routing_key(self) -> bytes: ...


class Stamp:
    """What a link writes on each message."""

    look_kept = ~0  # bits of Delivered.look that still hold

    def __init__(self, *, trusts_user_id: bool) -> None:
        self._trusts_user_id = trusts_user_id

    def stamped(self, run: DeliveredMessages) -> list[bytes | None]:
        """Each message as it is to be published; None: not at all."""
        return [self._one(props, body, run) for props, body in messages(run.content, 0, run.count)]

    def _one(self, props: bytes, body: bytes, run: DeliveredMessages) -> bytes | None:
        fields = split_properties(props)
        headers = _fields_of(fields.get("headers", _EMPTY_TABLE))
        if not self._mark(headers, run):
            return None
        fields["headers"] = join_table(headers)
        if not self._trusts_user_id:
            fields.pop("user_id", None)
        changed = join_properties(fields)
        return encode(changed, body) if len(changed) <= PROPERTIES_BYTES_MAX else None

    def _mark(self, headers: dict[str, bytes], run: DeliveredMessages) -> bool:
        """False: it is to be dropped."""
        raise NotImplementedError


class ExchangeStamp(Stamp):
    """Of an exchange link. `here`: cluster and virtual host."""

    def __init__(self, entry: Mapping[str, Any], max_hops: int, here: tuple[str, str], *, trusts_user_id: bool) -> None:
        super().__init__(trusts_user_id=trusts_user_id)
        self._entries = {flag: encode_value({**entry, "redelivered": flag}) for flag in (False, True)}
        self._max_hops = max_hops
        self._here = here

    def _mark(self, headers: dict[str, bytes], run: DeliveredMessages) -> bool:
        travelled = _travelled(headers)
        if not may_travel(travelled, self._max_hops, *self._here):
            return False
        older = headers[RECEIVED_FROM] if isinstance(travelled, list) else _EMPTY_LIST
        headers[RECEIVED_FROM] = _with_first(self._entries[run.redelivered], older)
        return True


class QueueStamp(Stamp):
    """Of a queue link. A message may come over the same link again and again: that is counted, and takes no more room."""

    look_kept = ~LOOK_CC

    def __init__(self, entry: Mapping[str, Any], *, trusts_user_id: bool) -> None:
        super().__init__(trusts_user_id=trusts_user_id)
        self._entry = dict(entry)

    def _mark(self, headers: dict[str, bytes], run: DeliveredMessages) -> bool:
        older = _travelled(headers)
        if not isinstance(older, list):
            older = []
            headers["x-original-exchange"] = encode_value(run.exchange.decode("utf-8", "surrogateescape"))
            headers["x-original-routing-key"] = encode_value(run.routing_key.decode("utf-8", "surrogateescape"))
        visits = sum(_visits(one) for one in older if self._is_of_this_link(one))
        entry = {**self._entry, "redelivered": run.redelivered, "visit-count": Long(visits + 1)}
        headers[RECEIVED_FROM] = encode_value([entry, *(one for one in older if not self._is_of_this_link(one))])
        if "CC" in headers:  # it goes to one queue here
            headers["x-original-cc"] = headers.pop("CC")
        return True

    def _is_of_this_link(self, one: Any) -> bool:
        return isinstance(one, Mapping) and all(one.get(name) == value for name, value in self._entry.items())


def _visits(entry: Mapping[str, Any]) -> int:
    visits = entry.get("visit-count")
    return visits if type(visits) is int and 0 <= visits < 2**62 else 0


def _fields_of(raw: bytes) -> dict[str, bytes]:
    """A table that nobody can read says nothing of where its message was, and does not go on."""
    try:
        return split_table(raw)
    except TableError:
        return {}


def _travelled(headers: Mapping[str, bytes]) -> Any:
    """The list of links; anything else, also what is nested too deep to be read, is a client's own and gives way."""
    raw = headers.get(RECEIVED_FROM)
    try:
        return None if raw is None else decode_value(raw)[0]
    except TableError:
        return None


def _with_first(entry: bytes, older: bytes) -> bytes:
    """The list with one entry more, in front."""
    items = entry + older[_LIST_HEAD.size :]
    return _LIST_HEAD.pack(b"A", len(items)) + items


def copied_arguments(
    arguments: Arguments, entry: Mapping[str, Any], max_hops: int, upstream: tuple[str, str]
) -> Arguments | None:
    """The arguments with which a binding is copied to this cluster and virtual host. None: messages that match it would not
    come here from there. `entry` names where it is copied from."""
    bound_from = arguments.get(BOUND_FROM)
    if bound_from is None:
        hops, older = max_hops, []
    else:
        older = bound_from if isinstance(bound_from, list) else []
        hops = 0 if has_seen(older, *upstream) else min(_hops_of(older) - 1, max_hops)
    if hops <= 0:
        return None
    return {**arguments, BOUND_FROM: [{**entry, "hops": hops}, *older]}


def _hops_of(entries: list[Any]) -> int:
    """Of the newest entry; what cannot be read goes no further."""
    newest = entries[0] if entries else None
    hops = newest.get("hops") if isinstance(newest, Mapping) else None
    return hops if type(hops) is int else 0
