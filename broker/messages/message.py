"""What travels: a run of messages, and nothing smaller on the fast path.

A run is consecutive publishes on one channel that agree on all that routing and storing look at. The messages
themselves stay bytes, exactly as the publisher sent them, in one immutable buffer, the *content*:

    for each message    props_len u32 LE | body_len u32 LE | props | body

`props` is an AMQP property list from its flags on. Nothing decodes it unless something asks (headers exchange, dead
letters, browse). The same buffer goes to the log, to segments and from there into deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.actors import LogActor

# Bits of Run.look: what the splitter saw that needs a look of its own.
LOOK_CC = 1  # a header CC or BCC: further routing keys. Such a run holds one message.
LOOK_REPLY_TO = 2  # reply-to names the direct reply-to pseudo queue. Such a run holds one message.
LOOK_HEADERS = 4  # at least one message carries headers

# What the header frame of the usual frame_max (131 072) holds beside its own 20 bytes: clients take no more in one frame.
PROPERTIES_BYTES_MAX = 131_052


@dataclass(slots=True, frozen=True)
class DiedIn:
    """Where the messages of a run have died that are published again, as the log names it: in one queue, for one reason."""

    queue_id: int
    position: tuple[int, int, int]  # of the first message, see classic/store/log_records.py
    reason: int  # broker/queues/queue_type.py, DeathReason
    further: tuple[tuple[int, int, int], ...] = ()  # positions of the other messages

    @property
    def positions(self) -> tuple[tuple[int, int, int], ...]:
        return (self.position, *self.further)

    def of_message(self, nth: int) -> DiedIn:
        if not self.further:
            return self
        return DiedIn(self.queue_id, self.further[nth - 1] if nth else self.position, self.reason)


@dataclass(slots=True)
class Run:
    """Messages that travel together. Everything said here holds for each of them.

    Nobody changes a run that is on its way: whoever needs another one makes it (`with_content`, `dataclasses.replace`). That is
    not left to `frozen=True` because one is made for each run published, and a frozen one takes 1.2 us instead of 0.3.
    """

    exchange: str
    routing_key: str
    content: bytes
    count: int
    body_bytes: int  # bodies only, properties not counted: what length limits and statistics mean by bytes
    persistent: bool = False
    mandatory: bool = False
    priority: int = 0
    expiration_ms: int | None = None  # the message's own TTL, already checked
    user_id: str | None = None
    look: int = 0
    redelivered: bool = False  # clients have had them before, in the queue that dead-lettered them: said on delivery
    # Who published it, and which of all its messages the first one is; set when it is handed over to the queues.
    publisher: LogActor | None = None
    number: int = 0
    died_in: DiedIn | None = None

    def with_content(self, content: bytes) -> Run:
        """The same with other properties or bodies; `dataclasses.replace` takes ten times as long."""
        return Run(
            self.exchange,
            self.routing_key,
            content,
            self.count,
            self.body_bytes,
            self.persistent,
            self.mandatory,
            self.priority,
            self.expiration_ms,
            self.user_id,
            self.look,
            self.redelivered,
            self.publisher,
            self.number,
            self.died_in,
        )
