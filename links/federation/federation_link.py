"""One federation link: connects, passes messages on, acknowledges, and begins again when something ends.

    starting -> running -> error -> (after a delay) starting ...        shutdown

A message is acknowledged at the upstream when it is confirmed here (on-confirm), when it was published here (on-publish), or by
its delivery (no-ack). What is refused here goes back to the upstream's queue after a pause. Where only `wanted` is missing, the
link leaves: what it has declared at the upstream is deleted.

A core: its two ends are ports, and so are time and chance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from broker.messages.message import LOOK_HEADERS
from links.amqp.conversation import Steps
from links.amqp.events import Delivered
from links.backoff import Backoff
from links.federation.federation_status import LinkState, LinkStatus
from links.federation.hops import Stamp
from links.federation.in_flight import LinkInFlight
from links.federation.upstream import Upstream
from links.world import LinkClock, LinkTimer
from native.sequence_set import Range

IN_FLIGHT_BYTES_MAX = 16 << 20
RETURN_PAUSE_S = 1.0  # before a message that was refused is back in its queue, and is tried again
LEAVE_S = 5.0


class UpstreamEnd(Protocol):
    """Where messages come from. Tells its link: upstream_ready, delivered, upstream_ended."""

    uri: str  # without secrets

    @property
    def cluster(self) -> str | None:
        """Its name, once it has said it."""

    def ask(self, steps: Steps) -> None:
        """More, once `upstream_ready` was called: it is called again."""

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None: ...

    def give_back(self, first: int, last: int) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class DownstreamEnd(Protocol):
    """Where messages go. Tells its link: confirmed, blocked, writable, downstream_ended."""

    name: str  # of its connection

    def publish(
        self, exchange: bytes, routing_key: bytes, content: bytes, count: int, run: Delivered, look: int
    ) -> bool:
        """Messages of this run, changed; numbered from 1 over all that are published. False: one of them is such as nobody may
        publish, and none was."""

    def close(self) -> None: ...


class LinkEnds(Protocol):
    """Opens both ends."""

    def open_upstream(self, link: FederationLink, steps: Steps) -> UpstreamEnd: ...

    def open_downstream(self, link: FederationLink) -> DownstreamEnd:
        """Raises DownstreamRefused."""


class DownstreamRefused(Exception):
    """Raised when the broker here takes nothing now."""


class FederationLink:
    """See the module. `start` it once; `stop` or `leave` ends it for good."""

    def __init__(
        self,
        upstream: Upstream,
        ends: LinkEnds,
        clock: LinkClock,
        fraction: Callable[[], float],
        on_error: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.upstream = upstream
        self.clock = clock
        self.is_asking = False  # its upstream has not answered what it was asked last
        self._ends = ends
        self._backoff = Backoff(upstream.reconnect_delay_s, fraction)
        self._on_error = on_error
        self._confirms = upstream.ack_mode == "on-confirm"
        self._state, self._since_ms, self._error = LinkState.STARTING, clock.wall_ms(), ""
        self._passed_on = self._dropped = self._refused = self._restarts = 0
        self._timer: LinkTimer | None = None
        self._attempt = 0  # what belongs to an older one is not heard
        self._is_leaving = self._has_asked_to_leave = False
        self._uri = ""
        self._reset()

    def _reset(self) -> None:
        self.end_there: UpstreamEnd | None = None
        self._end_here: DownstreamEnd | None = None
        self._stamp: Stamp | None = None
        self._in_flight = LinkInFlight()
        self._pending: deque[Delivered] = deque()
        self._pending_bytes = 0
        self._blocked: str | None = None
        self._writable = True
        self._paused = False
        self.is_asking = False

    # ------------------------------------------------------------------------- what kinds of links differ in

    def begin_steps(self) -> Steps:
        """Everything that is to be done at the upstream up to the first message."""
        raise NotImplementedError

    def leave_steps(self) -> Steps | None:
        """Deletes what is only there for this link; None: nothing is."""
        return None

    def new_stamp(self, end: UpstreamEnd) -> Stamp:
        raise NotImplementedError

    def target_of(self, run: Delivered) -> tuple[bytes, bytes]:
        """Exchange and routing key here."""
        raise NotImplementedError

    def begun(self, result: Any) -> None:
        """The first steps have ended so."""

    def answered(self, result: Any) -> None:
        """What was asked later has ended so."""

    def closed(self) -> None:
        """Both ends are gone."""

    # ------------------------------------------------------------------------- life

    def start(self) -> None:
        self._attempt += 1
        self._enter(LinkState.STARTING)
        try:
            self._end_here = self._ends.open_downstream(self)
        except DownstreamRefused as error:
            self._fail(f"here: {error}")
            return
        self.is_asking = True
        self.end_there = self._ends.open_upstream(self, self.begin_steps())
        self._uri = self.end_there.uri

    def restart(self, reason: str = "restarted by an operator") -> None:
        self._close()
        self._restarts += 1
        self._error = reason
        self.start()

    def stop(self) -> None:
        """This node does not run it any more; another one may."""
        self._close()
        self._enter(LinkState.SHUTDOWN)

    def leave(self) -> None:
        """Nobody wants it any more."""
        if not (self.upstream.cleans_up and self.is_running):
            self.stop()
            return
        self._is_leaving = True
        self._enter(LinkState.SHUTDOWN)
        self._timer = self.clock.call_later(LEAVE_S, self.stop)
        if not self.is_asking:
            self._ask_to_leave()

    def _ask_to_leave(self) -> None:
        steps = None if self._has_asked_to_leave else self.leave_steps()
        if steps is None:
            self.stop()
        else:
            self._has_asked_to_leave = True
            self.ask(steps)

    def status(self) -> LinkStatus:
        return LinkStatus(
            self._state,
            self._error,
            self._since_ms,
            self._uri,
            "" if self._end_here is None else self._end_here.name,
            self._passed_on,
            self._dropped,
            self._refused,
            self._in_flight.unanswered,
            self._restarts,
        )

    @property
    def is_running(self) -> bool:
        return self._state is LinkState.RUNNING

    def ask(self, steps: Steps) -> None:
        assert self.end_there is not None and not self.is_asking, "one thing is asked after the other"
        self.is_asking = True
        self.end_there.ask(steps)

    def fail(self, reason: str) -> None:
        if not self._is_leaving:
            self._fail(reason)

    def _enter(self, state: LinkState) -> None:
        if state is not self._state:
            self._state, self._since_ms = state, self.clock.wall_ms()

    def _close(self) -> None:
        """Both ends: what was delivered and not acknowledged is the upstream's again."""
        there, here = self.end_there, self._end_here
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._attempt += 1
        self._reset()
        self.closed()
        if there is not None:
            there.close()
        if here is not None:
            here.close()

    def _fail(self, reason: str) -> None:
        self._close()
        self._error = reason
        self._on_error(reason)
        delay_s = self._backoff.failed()
        self._enter(LinkState.SHUTDOWN if delay_s is None else LinkState.ERROR)
        if delay_s is not None:
            self._timer = self.clock.call_later(delay_s, self._begin_again)

    def _begin_again(self) -> None:
        self._timer = None
        self._restarts += 1
        self.start()

    # ------------------------------------------------------------------------- told by the ends

    def upstream_ready(self, result: Any) -> None:
        end = self.end_there
        if end is None:
            return
        self.is_asking = False
        if self._is_leaving:
            self._ask_to_leave()
        elif self._stamp is None:
            self._stamp = self.new_stamp(end)
            self._enter(LinkState.RUNNING)
            self.begun(result)
            self._forward()
        else:
            self.answered(result)

    def delivered(self, run: Delivered) -> None:
        if self._end_here is None or self._is_leaving:
            return
        self._in_flight.delivered(run.first_tag, run.count)
        self._pending.append(run)
        self._pending_bytes += len(run.content)
        self._forward()

    def confirmed(self, first: int, last: int, *, multiple: bool, ok: bool) -> None:
        if self.end_there is None:
            return
        tags = self._in_flight.answered(first, last, multiple=multiple)
        count = sum(high - low for low, high in tags)
        if ok:
            self._passed_on += count
            self._backoff.worked()
        else:
            self._refused += count
            self._error = "messages are refused here: a queue is full, or cannot take them now"
        if self._confirms:
            if ok:
                self._acknowledge(tags)
            else:
                self._give_back_later(tags)
        self._forward()

    def blocked(self, reason: str | None) -> None:
        self._blocked = reason
        self._forward()

    def writable(self, writable: bool) -> None:
        self._writable = writable
        self._forward()

    def upstream_ended(self, reason: str) -> None:
        if self._is_leaving:
            self.stop()
        else:
            self._fail(reason)

    def downstream_ended(self, reason: str) -> None:
        self.fail(f"here: {reason}")

    # ------------------------------------------------------------------------- passing on

    def _forward(self) -> None:
        while self._pending and self._may_publish():
            run = self._pending.popleft()
            self._pending_bytes -= len(run.content)
            self._publish(run)
        self._update_reading()

    def _may_publish(self) -> bool:
        if self._end_here is None or self._stamp is None or self._blocked is not None or not self._writable:
            return False
        return self._in_flight.bytes_held < IN_FLIGHT_BYTES_MAX

    def _publish(self, run: Delivered) -> None:
        stamp, attempt = self._stamp, self._attempt
        assert stamp is not None, "a run before its link was ready"
        for first, contents in _parts(run.first_tag, stamp.stamped(run)):
            if contents[0] is None:
                self._drop(first, len(contents))
            else:
                self._publish_part(run, first, [one for one in contents if one is not None])
            if attempt != self._attempt:
                return  # it ended with this

    def _publish_part(self, run: Delivered, first: int, contents: list[bytes]) -> None:
        """One by one where one of them cannot be published."""
        end, stamp, attempt = self._end_here, self._stamp, self._attempt
        assert end is not None and stamp is not None, "a run without an end for it"
        exchange, routing_key = self.target_of(run)
        content, count = b"".join(contents), len(contents)
        if end.publish(exchange, routing_key, content, count, run, (run.look & stamp.look_kept) | LOOK_HEADERS):
            if attempt == self._attempt:
                self._in_flight.published(first, count, len(content))
                if self.upstream.ack_mode == "on-publish":
                    self._acknowledge([(first, first + count)])
        elif count == 1:
            self._error = "a message was dropped that may not be published here"
            self._drop(first, 1)
        else:
            for place, one in enumerate(contents):
                if attempt == self._attempt:
                    self._publish_part(run, first + place, [one])

    def _drop(self, first: int, count: int) -> None:
        self._dropped += count
        self._acknowledge([(first, first + count)])

    def _acknowledge(self, tags: list[Range]) -> None:
        if self.upstream.ack_mode == "no-ack":
            return
        for low, high in tags:
            multiple = self._in_flight.settle(low, high)
            if self.end_there is not None:
                self.end_there.acknowledge(low, high - 1, multiple=multiple)

    def _give_back_later(self, tags: list[Range]) -> None:
        """At once it would be tried again at once, for ever."""
        attempt = self._attempt

        def give_back() -> None:
            if attempt == self._attempt and self.end_there is not None:
                for low, high in tags:
                    self._in_flight.settle(low, high)
                    self.end_there.give_back(low, high - 1)

        self.clock.call_later(max(RETURN_PAUSE_S, self.upstream.reconnect_delay_s), give_back)

    def _update_reading(self) -> None:
        there = self.end_there
        if there is None:
            return
        full = self._pending_bytes + self._in_flight.bytes_held >= IN_FLIGHT_BYTES_MAX
        if full != self._paused:
            self._paused = full
            if full:
                there.pause()
            else:
                there.resume()


def _parts(first_tag: int, stamped: list[bytes | None]) -> Iterator[tuple[int, list[bytes | None]]]:
    """Neighbours that go on, and neighbours that do not, with the tag of the first."""
    start = 0
    for at in range(1, len(stamped) + 1):
        if at == len(stamped) or (stamped[at] is None) != (stamped[start] is None):
            yield first_tag + start, stamped[start:at]
            start = at
