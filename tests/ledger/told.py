"""What the logs of nodes tell of each message: the fold's lives, each with the body that its place has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import Life
from analytics.fold.queue_history import folded
from analytics.inputs import log_files
from analytics.queue_events import CLASSIC_KINDS, QUORUM, ActorName, QueueEvent, QueueName, fold_order
from native import content
from native.columns import rows_of
from native.log_columns import publishes
from native.log_tables import PUBLISHES, RECORDS
from quorum.fifo.commands import ConsumerKey
from replicated.local_members import QUEUE_GROUPS
from storage.history.name_records import ActorRow
from tests.ledger.notes import Told
from tests.log_events import pieces_of, said_in_file

KINDS = ("classic", QUORUM)
CLASSIC_MAX = (1 << 32) - 1  # groups of queues have higher numbers

Actors = dict[tuple[int, int], ActorRow]  # by incarnation and number
Place = tuple[int, int, int, int]  # queue, position, offset and number in its run


def histories(paths: list[str]) -> dict[int, tuple[QueueName, QueueHistory]]:
    """The history of each queue that the logs name."""
    events: dict[int, list[QueueEvent]] = {}
    names: dict[int, QueueName] = {}
    for file in log_files(paths):
        for found in said_in_file(file):
            if isinstance(found, QueueName):
                if found.kind in KINDS:  # the catalog has the number of a queue, too
                    names[found.queue] = found
            elif isinstance(found, QueueEvent) and (found.kind in CLASSIC_KINDS or found.queue > CLASSIC_MAX):
                events.setdefault(found.queue, []).append(found)
    return {
        queue: (names[queue], folded(sorted(found, key=fold_order)))
        for queue, found in events.items()
        if queue in names
    }


def told(data: Path) -> dict[str, dict[str, list[Told]]]:
    """By queue and body."""
    found: dict[str, dict[str, list[Told]]] = {}
    all_histories, actors = histories([str(data)]), actors_in([str(data)])
    bodies = bodies_in([str(data)], set(all_histories))
    names = {queue: named.name.rpartition("/")[2] for queue, (named, _) in all_histories.items()}
    for queue, (_, history) in all_histories.items():
        name = names[queue]
        for life in history.lives:
            for nth in range(life.first, life.end):
                written = bodies.get((queue, life.entry, life.offset, nth), {})
                body = written.get(history.overruled.get(life.entry, max(written, default=0)))
                body = f"? {life.entry}/{life.offset}/{nth}" if body is None else body
                found.setdefault(name, {}).setdefault(body, []).append(_told(life, history, actors, names))
    return found


def bodies_in(paths: list[str], groups: set[int]) -> dict[Place, dict[int, str]]:
    """The bodies that leaders have given to each message of these queues, by their terms."""
    numbers = b"".join(one.to_bytes(8, "little") for one in sorted(groups))
    found: dict[Place, dict[int, str]] = {}
    for file in log_files(paths):
        for piece in pieces_of(file):
            terms = {record["offset"]: record["term"] for record in rows_of(RECORDS, piece.records)}
            for row in rows_of(PUBLISHES, publishes(piece.buffer, piece.base, piece.records, numbers)):
                at, term = row["content_at"] - piece.base, terms[row["offset"]]
                for nth in range(row["count"]):
                    _, body, at = content.one(piece.buffer, at)
                    place = row["queue"], row["pos"], row["off"], nth
                    found.setdefault(place, {})[term] = body.decode()
    return found


def actors_in(paths: list[str]) -> Actors:
    return {
        (found.row.incarnation, found.number): found.row
        for file in log_files(paths)
        for found in said_in_file(file)
        if isinstance(found, ActorName)
    }


def _told(life: Life, history: QueueHistory, actors: Actors, names: dict[int, str]) -> Told:
    publish, consumer = life.publish, life.last_consumer
    name = publisher = died_in = None
    if isinstance(consumer, ConsumerKey) and consumer in history.actors:
        name = _connection_of(actors, consumer.incarnation, history.actors[consumer])
    if publish.process is not None and publish.actor is not None:
        publisher = _connection_of(actors, publish.process[1], publish.actor)
    if publish.died_in is not None:
        source = publish.died_in[0]
        died_in = names.get(source) or names.get(source | QUEUE_GROUPS)
    return Told(
        life.state, life.times_out, Counter(life.returned), publish.at, publish.exchange, history.unknown, life.ended_at,
        name, publisher, died_in,
    )  # fmt: skip


def _connection_of(actors: Actors, incarnation: int, number: int) -> str | None:
    """Its own name, or that of the channel or connection to which it belongs."""
    row = actors.get((incarnation, number))
    while row is not None and row.parent:
        row = actors.get((incarnation, row.parent))
    return None if row is None else row.connection_name
