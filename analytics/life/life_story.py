"""The life of a message as rows, and as lines for people."""

from __future__ import annotations

from typing import Any

from analytics.coverage import iso_time
from analytics.fold.lives import DELIVERED, PUBLISHED, RETURNED, LifeState, LifeStep
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN, JobAnswer
from analytics.life.pursuit import LIVES_MAX, REFUSED, FollowedMessage, KnownStep, Pursuit
from analytics.life.wanted import MessagePlace
from native.log_tables import DEATHS
from quorum.fifo.commands import ConsumerKey
from storage.history.name_records import ActorRow

LIFE_COLUMNS = [
    ("queue", "string"), ("pos", "bigint"), ("off", "int"), ("nth", "bigint"), ("at", "string"), ("event", "string"),
    ("by", "string"), ("reason", "string"), ("exchange", "string"), ("routing_key", "string"), ("message_id", "string"),
    ("body_bytes", "bigint"), ("dead_letter_of", "string"), ("became", "array<string>"), ("committed", "boolean"),
    ("unknown", "string"),
]  # fmt: skip
NOT_FOUND = "no such message is in the files that were read: it may be in older ones, never persistent, or in a stream"
SAID = {
    DELIVERED: "delivered",
    RETURNED: "came back",
    REFUSED: "refused by its queue",
    LifeState.ACKED: "acknowledged",
    LifeState.GOT: "got without acknowledgement",
    LifeState.NO_ACK: "sent to a consumer that acknowledges nothing",
    LifeState.EXPIRED: "expired",
    LifeState.REJECTED: "rejected",
    LifeState.MAXLEN: "dropped: too much for its queue",
    LifeState.DELIVERY_LIMIT: "given up: delivered too often",
    LifeState.PURGED: "purged",
    LifeState.DELETED: "deleted with its queue",
    LifeState.UNKNOWN: "not known any further",
}
SOMETIME = "at an unknown time"
DEAD = frozenset({LifeState.EXPIRED, LifeState.REJECTED, LifeState.MAXLEN, LifeState.DELIVERY_LIMIT})


def story(pursuit: Pursuit) -> JobAnswer:
    """`text` is for people, and `rows` has the same for programs: one for each thing that happened."""
    names = {one.found.place: _place(one) for one in pursuit.messages}
    text: list[str] = []
    rows: list[dict[str, Any]] = []
    for one in pursuit.messages:
        text += ["", *_lines(one, names)]
        rows += _rows(one, names)
    if not pursuit.messages:
        text.append(NOT_FOUND)
    if pursuit.more:
        text += ["", f"... the first {LIVES_MAX} of more messages"]
    unknown = not pursuit.messages or any(one.unknown or one.committed is None for one in pursuit.messages)
    return JobAnswer(LIFE_COLUMNS, rows, EXIT_UNKNOWN if unknown else EXIT_HOLDS, text, is_cut=pursuit.more)


def _lines(one: FollowedMessage, names: dict[MessagePlace, str]) -> list[str]:
    found, properties = one.found, one.found.properties()
    id_ = properties.get("message_id")
    lines = [f"{names[found.place]}: {found.body_bytes} bytes" + (f", message id {id_!r}" if id_ else "")]
    to = f"to exchange {found.exchange!r} " if found.exchange else ""
    by = f" by {_who(one.publisher)}" if one.publisher else ""
    confirm = {True: ", waiting for a confirm", False: ", without a confirm", None: ""}[found.confirm]
    number = f", number {found.publish_no} of its channel" if found.publish_no else ""
    came = _came_from(one, names)
    lines.append(_line(iso_time(found.at), f"published {to}with key {found.routing_key!r}{by}{number}{confirm}"))
    lines += [_line("", came)] if came else []
    if found.expires_at is not None:
        lines.append(_line("", f"to expire at {iso_time(found.expires_at * 1000)}"))
    lines += [_line(_time(step.step), _sentence(step)) for step in one.steps]
    lines += [_line("", f"dead letter: {names[place]}") for place in one.became]
    lines += [_line("", _end(one))] if _end(one) else []
    return lines


def _end(one: FollowedMessage) -> str:
    last = one.steps[-1].step.what if one.steps else PUBLISHED
    if one.unknown is not None:
        return f"what became of it is not known as a whole: {one.unknown}"
    if one.committed is None:
        return "not known to be committed: read the logs of more nodes"
    if last in (PUBLISHED, RETURNED):
        return "waits in its queue" + (
            "" if last == RETURNED or not one.is_classic else ", or is out for the first time"
        )
    return "is out" if last == DELIVERED else ""


def _line(at: str | None, text: str) -> str:
    return f"  {SOMETIME if at is None else at.removesuffix('+00:00'):<23}  {text}"


def _time(step: LifeStep) -> str | None:
    return iso_time(None if step.at is None else step.at * 1000)


def _sentence(known: KnownStep) -> str:
    step = known.step
    said = SAID.get(LifeState(step.what) if step.what in set(LifeState) else step.what, step.what)
    who = _who(known.who) or _key(step.consumer)
    by = f" {'to' if step.what == DELIVERED else 'by'} {who}" if who and step.what != RETURNED else ""
    had = f", {who} had it" if who and step.what == RETURNED else ""
    return f"{said}{by}{f': {step.reason}' if step.reason else ''}{had}"


def _came_from(one: FollowedMessage, names: dict[MessagePlace, str]) -> str:
    """Of a dead letter: where it died. What the log does not say its header may."""
    found = one.found
    if found.died_in is not None:
        source = next((name for place, name in names.items() if place.is_at(found.died_in)), None)
        reason = dict(enumerate(DEATHS)).get(-1 if found.death_reason is None else found.death_reason, "died")
        return f"a dead letter of {source or f'queue {found.died_in[0]}, position {found.died_in[1:]}'}: {reason}"
    deaths = (found.properties().get("headers") or {}).get("x-death")
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict):
        return f"a dead letter of queue {deaths[0].get('queue')}, as its header says: {deaths[0].get('reason')}"
    return ""


def _place(one: FollowedMessage) -> str:
    _, pos, off, nth = one.found.place
    name = one.name.name if one.name is not None else f"queue {one.found.place.queue}"
    return f"{name}, sequence {pos + nth}" if one.is_classic else f"{name}, place {pos}/{off}/{nth}"


def _who(rows: list[ActorRow]) -> str:
    """A consumer's tag, and the connection that it belongs to."""
    if not rows:
        return ""
    first, top = rows[0], rows[-1]
    tag = f"consumer {first.tag!r} of " if first.tag else ""
    user = next((row.user for row in rows if row.user), "")
    names = ", ".join(one for one in (top.address.partition(" -> ")[0], top.connection_name) if one)
    return f"{tag}{user or 'a connection'}" + (f" ({names})" if names else "")


def _key(consumer: object) -> str:
    if isinstance(consumer, ConsumerKey):
        return f"consumer {consumer.number} of node {consumer.node}"
    return f"actor {consumer}" if consumer else ""


def _rows(one: FollowedMessage, names: dict[MessagePlace, str]) -> list[dict[str, Any]]:
    found = one.found
    _, pos, off, nth = found.place
    empty = dict.fromkeys(name for name, _ in LIFE_COLUMNS)
    place = {
        "queue": one.name.name if one.name is not None else str(found.place.queue),
        "pos": pos, "off": off, "nth": nth, "committed": one.committed, "unknown": one.unknown,
    }  # fmt: skip
    published = {
        "at": iso_time(found.at),
        "event": PUBLISHED,
        "by": _who(one.publisher) or None,
        "exchange": found.exchange,
        "routing_key": found.routing_key,
        "message_id": found.properties().get("message_id"),
        "body_bytes": found.body_bytes,
        "dead_letter_of": _came_from(one, names) or None,
    }
    rows = [{**empty, **place, **published}]
    for known in one.steps:
        step = known.step
        who = _who(known.who) or _key(step.consumer) or None
        rows.append({**empty, **place, "at": _time(step), "event": step.what, "by": who, "reason": step.reason})
    rows[-1]["became"] = [names[place] for place in one.became] or None
    return rows
