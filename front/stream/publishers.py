"""The publishers of one connection: runs go to the session as they arrive, confirms are gathered for a turn.

A client that is told of each message by itself costs a frame for each. So confirms are sent at the end of a turn, one frame for
each publisher, or as many as frame_max asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.errors import BrokerError
from broker.pending import Pending
from front.stream.response_codes import RequestRefused, code_of
from front.stream.session_port import StreamClientSession
from front.stream.stream_flow import StreamFlow
from front.stream.stream_terms import PUBLISHERS_MAX, REFERENCE_BYTES_MAX
from wire.stream.command_frames import REFUSAL_BYTES, key_of, publish_confirm, publish_error
from wire.stream.command_keys import ResponseCode
from wire.stream.publish_frame import ID_BYTES, StreamRun, runs_of
from wire.stream.stream_commands import (
    DeclarePublisherRequest,
    DeletePublisherRequest,
    PublishFrame,
    StandardResponse,
)

_HEAD_BYTES = 9  # of PublishConfirm and PublishError: key, version, publisher, count


@dataclass(slots=True)
class DeclaredPublisher:
    """What a client publishes to under one number."""

    reference: str
    stream: str
    outstanding: int = 0  # messages neither confirmed nor refused


class StreamPublishers:
    """See the module."""

    __slots__ = ("_confirmed", "_declaring", "_flow", "_session", "by_number", "frame_max")

    def __init__(self, session: StreamClientSession, flow: StreamFlow, frame_max: int) -> None:
        self._session = session
        self._flow = flow
        self.frame_max = frame_max  # 0: no limit
        self.by_number: dict[int, DeclaredPublisher] = {}
        self._declaring: DeclaredPublisher | None = None  # its answer is pending
        self._confirmed: dict[int, list[bytes]] = {}  # ids by publisher, not sent yet

    # ------------------------------------------------------------------------- requests

    def declare(self, request: DeclarePublisherRequest, now: int) -> Pending[StandardResponse]:
        """Raises BrokerError."""
        wanted = DeclaredPublisher(request.reference, request.stream)
        self._check(request.publisher, wanted)

        def declared(_: None) -> StandardResponse:
            if self._declaring is not wanted:
                raise RequestRefused(ResponseCode.STREAM_NOT_AVAILABLE, f"stream '{wanted.stream}' went meanwhile")
            self.by_number[request.publisher] = wanted
            self._flow.publishes = True
            return StandardResponse(key_of(request), request.correlation, ResponseCode.OK)

        self._declaring = wanted
        return self._session.declare_publisher(request.publisher, wanted.reference, wanted.stream, now).map(declared)

    def _check(self, number: int, wanted: DeclaredPublisher) -> None:
        why = ""
        if self._session.disk_alarm:
            why = "a disk alarm is raised"
        elif len(self.by_number) >= PUBLISHERS_MAX:
            why = f"{PUBLISHERS_MAX} publishers on this connection"
        elif len(wanted.reference.encode()) > REFERENCE_BYTES_MAX:
            why = f"a reference has {REFERENCE_BYTES_MAX} bytes at most"
        elif number in self.by_number:
            why = f"publisher {number} is declared already"
        elif wanted.reference and self._is_taken(wanted):
            why = f"'{wanted.reference}' publishes to stream '{wanted.stream}' already"
        if why:
            raise RequestRefused(ResponseCode.PRECONDITION_FAILED, why)

    def _is_taken(self, wanted: DeclaredPublisher) -> bool:
        return any((one.reference, one.stream) == (wanted.reference, wanted.stream) for one in self.by_number.values())

    def delete(self, request: DeletePublisherRequest, now: int) -> StandardResponse:
        """Raises RequestRefused."""
        if request.publisher not in self.by_number:
            raise RequestRefused(ResponseCode.NO_SUCH_PUBLISHER, f"no publisher {request.publisher}")
        self._session.delete_publisher(request.publisher, now)
        self._forget(request.publisher)
        return StandardResponse(key_of(request), request.correlation, ResponseCode.OK)

    def publish(self, frame: PublishFrame, now: int) -> Iterator[bytes]:
        """Run by run; each says what is to be sent at once: refusals. Raises BadStreamFrame, for what is behind."""
        number = frame.publisher
        for step in runs_of(frame):
            if isinstance(step, StreamRun):
                yield self.publish_run(number, step, now)
            else:
                code = ResponseCode.PRECONDITION_FAILED if number in self.by_number else ResponseCode.NO_SUCH_PUBLISHER
                yield self._errors(number, step.ids, code)

    def publish_run(self, number: int, run: StreamRun, now: int) -> bytes:
        """As `publish`, of one frame or of several."""
        publisher = self.by_number.get(number)
        if publisher is None:
            return self._errors(number, run.ids, ResponseCode.NO_SUCH_PUBLISHER)
        self._flow.published(run.item_count, len(run.items))
        publisher.outstanding += run.item_count
        try:
            held = self._session.publish(number, run, now)
        except BrokerError as error:
            return self.refuse(number, run.ids, error)
        if held is not None:
            self._flow.hold(held)
        return b""

    # ------------------------------------------------------------------------- what the session says

    def confirm(self, number: int, ids: bytes) -> None:
        self._answered(number, len(ids) // ID_BYTES)
        self._confirmed.setdefault(number, []).append(ids)

    def refuse(self, number: int, ids: bytes, error: BrokerError) -> bytes:
        """What is to be sent."""
        self._answered(number, len(ids) // ID_BYTES)
        return self._errors(number, ids, code_of(error))

    def _answered(self, number: int, count: int) -> None:
        assert number in self.by_number, f"messages of publisher {number} are answered, which is not declared"
        publisher = self.by_number[number]
        assert count <= publisher.outstanding, f"{count} messages answered, {publisher.outstanding} are outstanding"
        publisher.outstanding -= count
        self._flow.answered(count)

    def stream_unavailable(self, stream: str) -> bool:
        """True when somebody published to it."""
        if self._declaring is not None and self._declaring.stream == stream:
            self._declaring = None
        gone = [number for number, one in self.by_number.items() if one.stream == stream]
        for number in gone:
            self._forget(number)
        return bool(gone)

    def _forget(self, number: int) -> None:
        self._flow.answered(self.by_number.pop(number).outstanding)
        self._flow.publishes = bool(self.by_number)

    # ------------------------------------------------------------------------- output

    def take_confirms(self) -> list[bytes]:
        """Frames for all that was confirmed since."""
        if not self._confirmed:
            return []
        confirmed, self._confirmed = self._confirmed, {}
        return [
            publish_confirm(number, part)
            for number, ids in confirmed.items()
            for part in self._parts(b"".join(ids), ID_BYTES)
        ]

    def _errors(self, number: int, ids: bytes, code: ResponseCode) -> bytes:
        return b"".join([publish_error(number, part, code) for part in self._parts(ids, REFUSAL_BYTES)])

    def _parts(self, ids: bytes, element_bytes: int) -> list[bytes]:
        """Of one frame each."""
        if not self.frame_max:
            return [ids] if ids else []
        size = max((self.frame_max - _HEAD_BYTES) // element_bytes, 1) * ID_BYTES
        return [ids[at : at + size] for at in range(0, len(ids), size)]
