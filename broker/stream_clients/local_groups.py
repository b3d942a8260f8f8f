"""The groups of single active consumers among the clients of this node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.errors import PreconditionFailed
from broker.names import labelled
from broker.stream_clients.consumer_groups import GroupConsumer, next_step


class GroupKey(NamedTuple):
    """A group is one of its stream: a name may be used again on another one."""

    vhost: str
    stream: str
    name: str


@dataclass(slots=True)
class ConsumerGroup:
    partition_index: int
    consumers: list[GroupConsumer] = field(default_factory=list)  # in the order of their coming


class LocalGroups:
    """See the module. A group is there as long as it has consumers."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, ConsumerGroup] = {}

    def join(self, key: GroupKey, partition_index: int, consumer: GroupConsumer) -> None:
        """It is told nothing before `started`. Raises PreconditionFailed when the group is of another partition."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = ConsumerGroup(partition_index)
        elif group.partition_index != partition_index:
            raise PreconditionFailed(
                f"group '{key.name}' of {labelled('stream', key.stream, key.vhost)} is of partition "
                f"{group.partition_index}, not {partition_index}"
            )
        group.consumers.append(consumer)
        self._evaluate(group)

    def started(self, key: GroupKey, consumer: GroupConsumer) -> None:
        consumer.started = True
        self._evaluate(self._groups[key])

    def answered(self, key: GroupKey, consumer: GroupConsumer) -> None:
        """Its client has done what it was told last."""
        consumer.answers = True
        self._evaluate(self._groups[key])

    def leave(self, key: GroupKey, consumer: GroupConsumer) -> None:
        group = self._groups[key]
        group.consumers.remove(consumer)
        if group.consumers:
            self._evaluate(group)
        else:
            del self._groups[key]

    @staticmethod
    def _evaluate(group: ConsumerGroup) -> None:
        step = next_step(group.consumers, group.partition_index)
        if step is not None:
            step.consumer.told_active = step.active
            step.consumer.answers = False
            step.consumer.tell(step.active)
