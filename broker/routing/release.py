"""What becomes of delayed messages when their time has come: messages as they were published, routed by their exchange, or in
the queue that has delayed them.

The header that they have waited for, x-delay or x-deliver-at, is negative from here on (broker/exchanges/delayed_exchange.py,
delaying_queue.py), and the header BCC goes, as with any other message that is routed. Their own time to live begins now: it
counts in the queues that get them.

Those that are released together, have the same routing keys and agree on what a run agrees on travel as one run, whatever else
their properties say, in the order in which they are released. Messages that differ in nothing but the delay and the body are
read once (_Template): reading and writing the properties of one takes 20 us, and routing one that goes its own way as long. So
that is done in steps: a thousand of them at once held up everything else for 30 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from broker.errors import PreconditionFailed
from broker.exchanges.delayed_exchange import DELAY, delay_ms_of
from broker.exchanges.delaying_queue import DELIVER_AT, deliver_at_of
from broker.messages.expiration import expiration_ms
from broker.messages.message import LOOK_HEADERS, DiedIn, Run
from broker.names import delayed_exchange, delayed_queue
from broker.queues.queue_type import DeadMessage, DeathReason
from broker.routing.asked import Asked
from broker.routing.dead_letter import listed_keys, readable_headers
from broker.routing.history import HISTORY, History
from broker.routing.route import route_many
from broker.routing.sender_selected import HEADERS_WITH_KEYS
from native.content import body_bytes, encode, one
from wire.amqp.tables import decode_value, encode_value, join_properties, join_table, split_properties

if TYPE_CHECKING:
    from broker.catalog.catalog import Catalog
    from broker.records import QueueRecord

TEMPLATES_MAX = 256
LOOKED_AT_PER_STEP = 25  # messages, 20 us each
TEMPLATE_BYTES_MAX = 1_024  # of properties that are kept

_FIELD = bytes((len(DELAY),)) + DELAY.encode()  # as the name stands in a table
_INTEGERS = {
    ord(letter): Struct(layout)
    for letter, layout in (("b", ">b"), ("B", ">B"), ("s", ">h"), ("u", ">H"), ("I", ">i"), ("i", ">I"), ("l", ">q"))
}
_NEGATIVE = Struct(">ci")
_TABLE_SIZE_BYTES = 4
_NEGATIVE_MAX = 1 << 31  # encode_value gives others another layout

Asks = Callable[[str, bytes | None], Asked]


class ReleasedShape(NamedTuple):
    """What a message says of how it is routed and queued. Those that say the same, with one routing key, may be one run."""

    further_keys: tuple[str, ...]
    priority: int | None
    expiration_ms: int | None
    redelivered: bool


class ReleaseGroup(NamedTuple):
    run: Run
    queues: list[str]  # names of those that get it
    members: list[int]  # which of the messages that were released together


class _Template(NamedTuple):
    """Properties of a shape, around the value of the delay, as they are released."""

    before: bytes
    behind: bytes
    shape: ReleasedShape


class Releases:
    """Those of one broker. See the module."""

    def __init__(self, catalog: Catalog, asks: Asks) -> None:
        self._catalog = catalog
        self._asks = asks
        # By what stands before the value of the delay, its type, and what stands behind it.
        self._templates: dict[tuple[bytes, int, bytes], _Template] = {}

    def runs(self, holding: QueueRecord, messages: Sequence[DeadMessage]) -> Iterator[ReleaseGroup | None]:
        """Messages that were held in this queue and are due. None: that was a step."""
        gathered: dict[tuple[str, str, bool, ReleasedShape], _Gathered] = {}
        exchange = delayed_exchange(holding.name)
        for nth, message in enumerate(messages):
            if _ends_step(nth):
                yield None
            props, body, _ = one(message.content, 0)
            properties, shape = self._released(props)
            source = message.exchange if exchange is None else exchange
            key = source, message.routing_key, message.persistent, shape
            together = gathered.get(key)
            if together is None:
                together = gathered[key] = _Gathered()
            together.contents.append(encode(properties, body))
            together.members.append(nth)
        for (source, routing_key, persistent, shape), together in gathered.items():
            yield from self._routed(holding, messages, together, (source, routing_key, persistent), shape)

    def _routed(
        self,
        holding: QueueRecord,
        messages: Sequence[DeadMessage],
        together: _Gathered,
        name: tuple[str, str, bool],
        shape: ReleasedShape,
    ) -> Iterator[ReleaseGroup | None]:
        """As one run where all go the same way, else each by itself."""
        contents, members = together.contents, together.members
        exchange, routing_key, persistent = name

        def run_of(start: int, end: int) -> Run:
            content = contents[start] if end - start == 1 else b"".join(contents[start:end])
            return Run(
                exchange,
                routing_key,
                content,
                end - start,
                body_bytes(content, 0, end - start),
                persistent,
                priority=shape.priority or 0,
                expiration_ms=shape.expiration_ms,
                look=LOOK_HEADERS,
                redelivered=shape.redelivered,
                died_in=_died_in(holding, [messages[nth] for nth in members[start:end]]),
            )

        queue = delayed_queue(holding.name)
        if queue is not None:
            yield ReleaseGroup(run_of(0, len(contents)), self._there(holding.vhost, queue), members)
            return
        keys = (routing_key, *shape.further_keys)
        for at in range(len(contents)):
            if _ends_step(at):
                yield None
            asked = self._asks(holding.vhost, one(contents[at], 0)[0])
            asked.has_waited = True
            queues = route_many(self._catalog, holding.vhost, exchange, keys, asked)
            if at == 0 and not (asked.by_headers or asked.by_message):
                yield ReleaseGroup(run_of(0, len(contents)), queues, members)
                return
            yield ReleaseGroup(run_of(at, at + 1), queues, members[at : at + 1])

    def _there(self, vhost: str, queue: str) -> list[str]:
        return [queue] if self._catalog.queue(vhost, queue) is not None else []

    def _released(self, props: bytes) -> tuple[bytes, ReleasedShape]:
        """The properties as they go on, and what they say."""
        at = props.find(_FIELD) + len(_FIELD)
        layout = _INTEGERS.get(props[at]) if len(_FIELD) <= at < len(props) else None
        if layout is None or len(props) > TEMPLATE_BYTES_MAX:
            return _rewritten(props)
        end = at + 1 + layout.size
        name = props[:at], props[at], props[end:]
        delay = layout.unpack_from(props, at + 1)[0] if end <= len(props) else 0
        if not 0 < delay < _NEGATIVE_MAX:
            return _rewritten(props)
        template = self._templates.get(name)
        if template is not None:
            return template.before + _NEGATIVE.pack(b"I", -delay) + template.behind, template.shape
        properties, shape = _rewritten(props)
        if _value_at(props) == at:
            self._keep(name, properties, _NEGATIVE.pack(b"I", -delay) + props[end:], shape)
        return properties, shape

    def _keep(self, name: tuple[bytes, int, bytes], properties: bytes, ending: bytes, shape: ReleasedShape) -> None:
        if not properties.endswith(ending):
            return  # something behind the delay has changed, too: a header BCC
        if len(self._templates) >= TEMPLATES_MAX:
            self._templates.clear()
        behind = ending[_NEGATIVE.size :]
        self._templates[name] = _Template(properties[: len(properties) - len(ending)], behind, shape)


class _Gathered:
    """Messages that may be one run."""

    __slots__ = ("contents", "members")

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.members: list[int] = []


def _ends_step(done: int) -> bool:
    return done > 0 and done % LOOKED_AT_PER_STEP == 0


def _died_in(holding: QueueRecord, messages: Sequence[DeadMessage]) -> DiedIn | None:
    positions = [message.position for message in messages if message.position is not None]
    if len(positions) < len(messages):
        return None
    return DiedIn(holding.id, positions[0], DeathReason.EXPIRED, tuple(positions[1:]))


def _rewritten(props: bytes) -> tuple[bytes, ReleasedShape]:
    fields = split_properties(props)
    headers = readable_headers(fields.get("headers"))
    keys: list[str] = []
    for name in HEADERS_WITH_KEYS:
        keys += listed_keys(headers.get(name))
    headers.pop("BCC", None)
    _negate(headers)
    fields["headers"] = join_table(headers)
    shape = ReleasedShape(
        tuple(keys),
        fields["priority"][0] if "priority" in fields else None,
        _time_to_live(fields.get("expiration")),
        History(headers.get(HISTORY)).was_delivered(),
    )
    return join_properties(fields), shape


def _value_at(props: bytes) -> int | None:
    """Where the value of the delay begins; None: not found for sure."""
    fields = split_properties(props)
    headers = fields.get("headers", b"")
    at = 2 + sum(len(fields.get(name, b"")) for name in ("content_type", "content_encoding")) + _TABLE_SIZE_BYTES
    end = at - _TABLE_SIZE_BYTES + len(headers)
    found = None
    for name, value in readable_headers(headers or None).items():
        at += 1 + len(name.encode("utf-8", "surrogateescape"))
        if name == DELAY:
            found = at
        at += len(value)
    return found if at == end else None  # else a header was there twice


def _negate(headers: dict[str, bytes]) -> None:
    """What the message has waited for; no one delays it for that again."""
    for name, waited_for in ((DELAY, delay_ms_of), (DELIVER_AT, deliver_at_of)):
        waited = waited_for({name: decode_value(headers[name])[0]}) if name in headers else None
        if waited is not None:
            headers[name] = encode_value(-waited)
            return


def _time_to_live(raw: bytes | None) -> int | None:
    if raw is not None:
        with suppress(PreconditionFailed):  # it was checked when it was published
            return expiration_ms(raw[1:])
    return None
