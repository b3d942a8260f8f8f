"""What a replay is to publish again, and where to."""

from __future__ import annotations

from dataclasses import dataclass

from broker import names
from broker.errors import InvalidRequest

CONSUMED = ("acked", "got", "no-ack")
ENDS = (*CONSUMED, "rejected", "expired", "maxlen", "delivery-limit", "purged")
RATE_DEFAULT = 1_000  # messages a second
PLACE_PARTS = (1, 3)  # a sequence; entry, run and how manieth
PLACE_DIGITS_MAX = 18

ReplayPlace = tuple[int, ...]


@dataclass(slots=True, frozen=True)
class ReplayOrder:
    """Times are ms since the epoch: when messages left their queue."""

    vhost: str
    queue: str
    exchange: str
    routing_key: str | None = None  # None: the key with which each was published
    ends: tuple[str, ...] = CONSUMED
    since: int | None = None
    until: int | None = None  # this one and later ones are left out
    after: ReplayPlace = ()  # only those behind this place
    published_key: str | None = None  # only those that were published with it
    consumer: str = ""  # only those that this consumer, by its tag or its user, had last
    limit: int = 0  # 0: all
    rate: int = RATE_DEFAULT  # messages a second; 0: as fast as they are confirmed

    def check(self) -> None:
        """Raises InvalidRequest."""
        unknown = [one for one in self.ends if one not in ENDS]
        if unknown or not self.ends:
            raise InvalidRequest(f"messages leave a queue by {', '.join(ENDS)}, not by '{''.join(unknown[:1])}'")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InvalidRequest("the time from which on messages are meant is not before the one up to which they are")
        if min(self.limit, self.rate) < 0:
            raise InvalidRequest("a limit or rate below 0: give how many messages, or 0 for all and as fast as it goes")
        names.check_length("routing key", self.routing_key or "")

    @property
    def target(self) -> str:
        """For people."""
        key = "their own keys" if self.routing_key is None else f"key '{self.routing_key}'"
        return f"exchange '{self.exchange}' with {key}"


def read_place(text: str) -> ReplayPlace:
    """As operators write it: 17, or 5/31/0 in a quorum queue; empty: before all. Raises InvalidRequest."""
    if not text:
        return ()
    parts = text.split("/")
    are_numbers = all(part.isascii() and part.isdigit() and len(part) <= PLACE_DIGITS_MAX for part in parts)
    if len(parts) not in PLACE_PARTS or not are_numbers:
        raise InvalidRequest(f"a place is {text[:80]!r}: write 17, or 5/31/0 in a quorum queue, as a replay says it")
    return tuple(map(int, parts))


def place_text(place: ReplayPlace) -> str:
    return "/".join(map(str, place))
