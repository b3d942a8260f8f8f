"""The life of a message as an object for programs that show it: who is who stands apart from what happened."""

from __future__ import annotations

from typing import Any

from analytics.coverage import iso_time
from analytics.life.pursuit import FollowedMessage, KnownStep, Pursuit
from analytics.life.wanted import SuccessorOf
from native.log_tables import DEATHS
from quorum.fifo.commands import ConsumerKey
from replicated.local_members import QUEUE_GROUPS
from storage.history.name_records import ActorRow

STEPS_MAX = 200  # of one message: one that comes back again and again would be told without an end

LifeObject = dict[str, Any]


def life_objects(pursuit: Pursuit) -> list[LifeObject]:
    return [_life(one) for one in pursuit.messages]


def _life(one: FollowedMessage) -> LifeObject:
    found, properties = one.found, one.found.properties()
    queue, pos, off, nth = found.place
    return {
        "queue": queue & ~QUEUE_GROUPS,
        "place": [pos + nth] if one.is_classic else [pos, off, nth],
        "position": list(SuccessorOf(found.place, one.is_classic).position()),  # where a dead letter of it says it died
        "name": one.name.name if one.name is not None else "",
        "body_bytes": found.body_bytes,
        "message_id": properties.get("message_id"),
        "correlation_id": properties.get("correlation_id"),
        "published_at": iso_time(found.at),
        "exchange": found.exchange,
        "routing_key": found.routing_key,
        "confirm": found.confirm,
        "publish_no": found.publish_no,
        "expires_at": iso_time(None if found.expires_at is None else found.expires_at * 1000),
        "publisher": _actor(one.publisher),
        "died_in": None if found.died_in is None else list(found.died_in),
        "death_reason": _reason(found.death_reason),
        "steps": [_step(step) for step in one.steps[:STEPS_MAX]],
        "steps_left_out": max(0, len(one.steps) - STEPS_MAX),
        "committed": one.committed,
        "unknown": one.unknown,
    }


def _reason(number: int | None) -> str | None:
    return None if number is None else dict(enumerate(DEATHS)).get(number)


def _step(known: KnownStep) -> LifeObject:
    step = known.step
    at = iso_time(None if step.at is None else step.at * 1000)
    return {"at": at, "event": step.what, "reason": step.reason, "who": _actor(known.who) or _unnamed(step.consumer)}


def _actor(rows: list[ActorRow]) -> LifeObject | None:
    """A client, and the connection that it belongs to."""
    if not rows:
        return None
    top = rows[-1]
    user = next((row.user for row in rows if row.user), "")
    return {
        "user": user,
        "address": top.address.partition(" -> ")[0],
        "connection": top.connection_name,
        "product": top.product,
        "consumer_tag": rows[0].tag,
        "other": "",
    }


def _unnamed(consumer: object) -> LifeObject | None:
    """Somebody whom no log that was read names."""
    if not consumer:
        return None
    is_key = isinstance(consumer, ConsumerKey)
    other = f"consumer {consumer.number} of node {consumer.node}" if is_key else f"actor {consumer}"  # type: ignore[attr-defined]
    return {"user": "", "address": "", "connection": "", "product": "", "consumer_tag": "", "other": other}
