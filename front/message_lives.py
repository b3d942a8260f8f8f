"""The life of a message as operators ask for it over any front: what may be asked, and the answer with names of queues.

It shows clients of others, as lists of connections do, and what only those know who may take messages from the queue: so it
asks for the tag `monitoring` and for the permission to read from the queue. Bodies are in no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.errors import InvalidRequest, NotSupported, PreconditionFailed
from broker.operations.operator import MONITORING, Operator
from front.node_ports import LivesFound, MessageLivesPort

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.session.session import Session

BY = ("message_id", "correlation_id", "place", "body_sha256")
VALUE_BYTES_MAX = 255
PLACE_PARTS = (1, 3)  # a sequence; entry, run and how manieth
PLACE_DIGITS_MAX = 18
DIGEST_DIGITS = 64
HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
OF_A_STREAM = "is a stream: its messages stay where they are, and the log does not say who read them. Browse it instead"

LifeView = dict[str, Any]


class MessageLives:
    """See the module."""

    def __init__(self, broker: Broker, lives: MessageLivesPort | None) -> None:
        self._broker = broker
        self._lives = lives

    async def find(self, who: Operator, session: Session, queue: str, by: str, value: str) -> LifeView:
        """`lives`, the `nodes` that were read or not, and whether there are `more`. Raises BrokerErrors."""
        who.require_tag(MONITORING)
        if self._lives is None:
            raise NotSupported("this node does not search its log for messages: leveret-analytics does")
        _check(by, value)
        record = session.topology.readable(queue).queue.record
        if record.kind == "stream":
            raise PreconditionFailed(f"{record.label} {OF_A_STREAM}")
        self._broker.audit.changed("FindMessageLife", f"look for messages of {record.label} by {by} in the log")
        return _view(await self._lives.find(record.id, by, value), record.vhost)


def _check(by: str, value: str) -> None:
    """Raises InvalidRequest."""
    if not 0 < len(value.encode("utf-8", "replace")) <= VALUE_BYTES_MAX:
        raise InvalidRequest(f"'{by}' has {len(value)} characters: 1 to {VALUE_BYTES_MAX} bytes are looked for")
    if by == "place" and not _is_place(value):
        raise InvalidRequest(f"'place' is {value!r}: write 17, or 17/9/0 in a quorum queue, as the answer says it")
    if by == "body_sha256" and not (len(value) == DIGEST_DIGITS and set(value) <= HEXADECIMAL):
        raise InvalidRequest(f"'body_sha256' is {value!r}: it has {DIGEST_DIGITS} hexadecimal digits")


def _is_place(text: str) -> bool:
    parts = text.split("/")
    are_numbers = all(part.isascii() and part.isdigit() and len(part) <= PLACE_DIGITS_MAX for part in parts)
    return len(parts) in PLACE_PARTS and are_numbers


def _view(found: LivesFound, vhost: str) -> LifeView:
    names = {life["queue"]: life["name"].removeprefix(f"{vhost}/") for life in found.lives}
    return {
        "lives": [_life(life, vhost, names) for life in found.lives],
        "nodes": [one._asdict() for one in found.nodes],
        "more": found.more,
    }


def _life(life: LifeView, vhost: str, names: dict[int, str]) -> LifeView:
    """Dead letters stay within their vhost."""

    def place(one: LifeView | None) -> LifeView | None:
        return None if one is None else {"queue": names[one["queue"]], "place": _text(one["place"])}

    shown = {name: value for name, value in life.items() if name not in ("position", "name")}
    return {
        **shown,
        "vhost": vhost,
        "queue": names[life["queue"]],
        "place": _text(life["place"]),
        "was": place(life["was"]),
        "became": [place(one) for one in life["became"]],
    }


def _text(place: list[int]) -> str:
    return "/".join(map(str, place))
