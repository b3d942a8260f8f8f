"""What was counted, for metrics: one set of counters for each session, added up by the broker when the session ends."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields


@dataclass(slots=True)
class Counters:
    """Messages, since the session was opened or, for the broker, since the node was started."""

    published: int = 0  # taken from clients
    published_confirm: int = 0  # of these: on sessions with confirms
    routed: int = 0  # of these: to at least one queue
    returned: int = 0  # unroutable and mandatory
    dropped: int = 0  # unroutable and not mandatory
    confirmed: int = 0
    refused: int = 0  # answered with a nack
    delivered: int = 0  # to consumers, to be acknowledged
    delivered_no_ack: int = 0
    got: int = 0  # with basic.get, to be acknowledged
    got_no_ack: int = 0
    got_empty: int = 0
    redelivered: int = 0
    acknowledged: int = 0

    def add(self, other: Counters) -> None:
        for name, value in zip(_NAMES, astuple(other), strict=True):
            setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, int]:
        return dict(zip(_NAMES, astuple(self), strict=True))


_NAMES = tuple(field.name for field in fields(Counters))
