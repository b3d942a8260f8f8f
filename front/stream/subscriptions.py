"""The subscriptions of one connection: what a client may ask of them, and who of a group is the active one.

Credit is counted by the session, whose readers stop without it. A consumer of a group gets nothing before it was told that it
is active and has answered where it wants to begin (`activate`, `updated`); one that was told to stop gets nothing at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.pending import Pending
from broker.stream_clients.client_terms import ReadOptions
from front.stream.response_codes import RequestRefused
from front.stream.session_port import StreamClientSession
from front.stream.stream_terms import REFERENCE_BYTES_MAX, SUBSCRIPTIONS_MAX
from wire.stream.command_frames import encode_frame, key_of
from wire.stream.command_keys import OffsetKind, ResponseCode
from wire.stream.stream_commands import (
    ConsumerUpdateRequest,
    ConsumerUpdateResponse,
    CreditCommand,
    CreditError,
    StandardResponse,
    SubscribeRequest,
    UnsubscribeRequest,
)


@dataclass(slots=True)
class StreamSubscription:
    """One reader, under the number that its client chose."""

    stream: str
    single_active: bool
    active: bool


@dataclass(slots=True, frozen=True)
class AskedUpdate:
    """A client was told that its consumer is, or is not, the active one, and has not answered yet."""

    subscription: int
    active: bool


def read_options(properties: dict[str, str]) -> ReadOptions:
    """Those that we know; others are for newer servers."""
    return ReadOptions(
        filter_values=tuple(value for name, value in properties.items() if name.startswith("filter.")),
        match_unfiltered=properties.get("match-unfiltered") == "true",
        single_active=properties.get("single-active-consumer") == "true",
        name=properties.get("name", ""),
        super_stream=properties.get("super-stream", ""),
        identifier=properties.get("identifier", ""),
    )


class StreamSubscriptions:
    """See the module."""

    __slots__ = ("_correlation", "_session", "_subscribing", "asked", "by_number")

    def __init__(self, session: StreamClientSession) -> None:
        self._session = session
        self.by_number: dict[int, StreamSubscription] = {}
        self.asked: dict[int, AskedUpdate] = {}  # by the correlation id that the answer will have
        self._subscribing: StreamSubscription | None = None  # its answer is pending
        self._correlation = 0

    # ------------------------------------------------------------------------- requests

    def subscribe(self, request: SubscribeRequest, now: int) -> Pending[StandardResponse]:
        """`start` follows when the answer was sent. Raises BrokerError; what is checked first decides the code."""
        options = read_options(request.properties)
        self._check_limits(options)
        self._session.check_readable(request.stream)
        self._check(request, options)
        wanted = StreamSubscription(request.stream, options.single_active, active=not options.single_active)

        def subscribed(_: None) -> StandardResponse:
            if self._subscribing is not wanted:
                raise RequestRefused(ResponseCode.STREAM_NOT_AVAILABLE, f"stream '{wanted.stream}' went meanwhile")
            self.by_number[request.subscription] = wanted
            return StandardResponse(key_of(request), request.correlation, ResponseCode.OK)

        self._subscribing = wanted
        asked = self._session.subscribe(request.subscription, request.stream, request.offset, options, now)
        return asked.map(subscribed)

    def _check_limits(self, options: ReadOptions) -> None:
        if len(self.by_number) >= SUBSCRIPTIONS_MAX:
            raise RequestRefused(
                ResponseCode.PRECONDITION_FAILED, f"{SUBSCRIPTIONS_MAX} subscriptions on this connection"
            )
        if len(options.name.encode()) > REFERENCE_BYTES_MAX:
            raise RequestRefused(ResponseCode.PRECONDITION_FAILED, f"a name has {REFERENCE_BYTES_MAX} bytes at most")

    def _check(self, request: SubscribeRequest, options: ReadOptions) -> None:
        if request.subscription in self.by_number:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_ID_EXISTS, f"subscription {request.subscription} exists already"
            )
        if options.single_active and not options.name:
            raise RequestRefused(ResponseCode.PRECONDITION_FAILED, "a single active consumer has a name")
        if request.offset.kind is OffsetKind.NONE:
            raise RequestRefused(ResponseCode.PRECONDITION_FAILED, "a subscription begins somewhere")

    def start(self, request: SubscribeRequest, now: int) -> None:
        """The client has its answer."""
        self._session.start(request.subscription, request.credit, now)

    def add_credit(self, command: CreditCommand, now: int) -> CreditError | None:
        found = self.by_number.get(command.subscription)
        if found is None:
            return CreditError(ResponseCode.NO_SUCH_SUBSCRIPTION, command.subscription)
        if command.credit > 0:
            self._session.add_credit(command.subscription, command.credit, now)
        return None if found.active else CreditError(ResponseCode.PRECONDITION_FAILED, command.subscription)

    def unsubscribe(self, request: UnsubscribeRequest, now: int) -> StandardResponse:
        """Raises RequestRefused."""
        if request.subscription not in self.by_number:
            raise RequestRefused(ResponseCode.NO_SUCH_SUBSCRIPTION, f"no subscription {request.subscription}")
        self._session.unsubscribe(request.subscription, now)
        self._forget(request.subscription)
        return StandardResponse(key_of(request), request.correlation, ResponseCode.OK)

    def updated(self, response: ConsumerUpdateResponse, now: int) -> None:
        """The answer to `activate`. One that nobody waits for is of a subscription that is gone."""
        asked = self.asked.pop(response.correlation, None)
        if asked is None:
            return
        self.by_number[asked.subscription].active = asked.active
        self._session.consumer_updated(asked.subscription, asked.active, response.offset, now)

    # ------------------------------------------------------------------------- what the session says

    def activate(self, number: int, active: bool) -> tuple[int, bytes]:
        """The correlation id, and what is to be sent."""
        found = self.by_number[number]
        assert found.single_active, f"subscription {number} is in no group"
        found.active = False  # until it has answered
        self._correlation += 1
        self.asked[self._correlation] = AskedUpdate(number, active)
        return self._correlation, encode_frame(ConsumerUpdateRequest(self._correlation, number, int(active)))

    def stream_unavailable(self, stream: str) -> bool:
        """True when somebody read it."""
        if self._subscribing is not None and self._subscribing.stream == stream:
            self._subscribing = None
        gone = [number for number, one in self.by_number.items() if one.stream == stream]
        for number in gone:
            self._forget(number)
        return bool(gone)

    def _forget(self, number: int) -> None:
        del self.by_number[number]
        self.asked = {correlation: one for correlation, one in self.asked.items() if one.subscription != number}
