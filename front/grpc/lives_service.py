"""The part of leveret.v1.Admin that tells lives of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.errors import InvalidRequest
from broker.operations.operator import MONITORING
from front.grpc import convert
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import operator
from front.message_lives import BY, MessageLives
from leveret.v1 import admin_pb2 as pb

LIFE_TEXTS = (
    "queue", "place", "published_at", "exchange", "routing_key", "message_id", "correlation_id", "death_reason", "unknown",
)  # fmt: skip


class LivesMethods:
    """Mixed into AdminService."""

    front: Front
    lives: MessageLives

    @answers_errors
    async def FindMessageLives(
        self, request: pb.FindMessageLivesRequest, context: Context
    ) -> pb.FindMessageLivesResponse:
        operator().require_tag(MONITORING)  # before anything is said of what was asked
        by = request.WhichOneof("by")
        if by is None:
            raise InvalidRequest(f"give one of {', '.join(BY)}")
        with self.front.brief_session(request.vhost or DEFAULT_VHOST) as session:
            found = await self.lives.find(operator(), session, request.queue, by, getattr(request, by))
        nodes = [
            pb.LogRead(**{name: value for name, value in one.items() if value is not None}) for one in found["nodes"]
        ]
        return pb.FindMessageLivesResponse(lives=map(_life, found["lives"]), nodes=nodes, more=found["more"])


def _life(life: Mapping[str, Any]) -> pb.MessageLife:
    return pb.MessageLife(
        **{name: convert.text(life[name] or "") for name in LIFE_TEXTS},
        body_bytes=life["body_bytes"],
        publisher=_who(life["publisher"]),
        steps=[_step(one) for one in life["steps"]],
        steps_left_out=life["steps_left_out"],
        was=None if life["was"] is None else pb.LifePlace(**life["was"]),
        became=[pb.LifePlace(**one) for one in life["became"]],
        committed=bool(life["committed"]),
    )


def _step(step: Mapping[str, Any]) -> pb.LifeStep:
    return pb.LifeStep(
        at=step["at"] or "", event=step["event"], reason=step["reason"] or "", who=_who(step["who"])
    )  # fmt: skip


def _who(who: Mapping[str, str] | None) -> str:
    """A client in words: its consumer, its user, and where it was connected from."""
    if who is None:
        return ""
    tag = f"consumer '{who['consumer_tag']}' of " if who["consumer_tag"] else ""
    where = ", ".join(who[name] for name in ("address", "connection", "product") if who[name])
    return convert.text(who["other"] or f"{tag}{who['user'] or 'a connection'}{f' ({where})' if where else ''}")
