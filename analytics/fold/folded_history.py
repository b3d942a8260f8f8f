"""What the events of one queue come to, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass, field

from analytics.fold.lives import Life, LifeStep
from analytics.fold.node_processes import ClassicActor
from analytics.fold.quorum_queue import Second
from analytics.fold.telling_machine import Refusal
from quorum.fifo.commands import ConsumerKey


@dataclass(slots=True)
class QueueHistory:
    """See the module."""

    lives: list[Life] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    steps: list[LifeStep] = field(default_factory=list)  # of all messages, where the fold was asked to note them
    actors: dict[ConsumerKey, int] = field(default_factory=dict)  # who consumers of a quorum queue are
    unknown: str | None = None  # why something is not known; None: all is
    committed: int = 0  # the last place of its log that is known to count
    overruled: dict[int, int] = field(
        default_factory=dict
    )  # by place, the term that counts where some copy has a higher one

    def is_committed(self, life: Life) -> bool | None:
        """Whether all that is told of it counts for ever; None: the logs that were read do not say."""
        return True if life.told_at <= self.committed else None

    def actor_of(self, consumer: object) -> int | None:
        """The number by which the log of its node names a consumer of a life; a life of a classic queue may have no other."""
        if isinstance(consumer, ClassicActor):
            return consumer.number
        return self.actors.get(consumer) if isinstance(consumer, ConsumerKey) else consumer  # type: ignore[return-value]
