"""One shovel: connects, forwards, acknowledges, and begins again when something ends.

    starting → running ⇄ flow, blocked → terminated → (after a delay) starting …        stalled → starting

A message is acknowledged at the source when the destination has confirmed it (on-confirm), when it was published (on-publish),
or by its delivery (no-ack). What the destination refuses goes back to the source's queue after a pause. So does what it returns
because no queue wants it: RabbitMQ's shovel publishes without `mandatory`, and such messages are gone.

Runs of one read or turn that go to the same place are published as one batch, whatever ended them at the source: messages
of many keys are many runs there.

A core: its two ends are doors (`doors` in production), time and chance are ports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from links.amqp.events import Confirmed, Delivered, PublishReturned
from links.backoff import Backoff
from links.shovel.definition import ShovelDefinition
from links.shovel.rewriting import Rewriting
from links.shovel.shovel_status import ShovelState, ShovelStatus
from links.shovel.transit import Transit
from links.world import LinkClock, LinkTimer
from native.sequence_set import Range

IN_FLIGHT_BYTES_MAX = 16 << 20
STALL_S = 60.0
WATCH_S = 5.0
BATCH_BYTES_MAX = 1 << 20
RETURN_PAUSE_S = 1.0  # before a message that was returned or refused is back in its queue, and is tried again
AUTODELETE = "autodelete"


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs that are published together. Fulfils ForwardedMessages."""

    exchange: bytes
    routing_key: bytes
    first_tag: int
    count: int
    content: bytes


class SourceDoor(Protocol):
    """Where messages come from. Tells its shovel: source_ready, delivered, source_ended."""

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None: ...

    def give_back(self, first: int, last: int) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class DestinationDoor(Protocol):
    """Where messages go. Tells its shovel: destination_ready, confirmed, returned, blocked, writable, destination_ended."""

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None: ...

    def close(self) -> None: ...


class ShovelDoors(Protocol):
    """Opens both ends. `source_uri` and `destination_uri` are those in use, for people."""

    source_uri: str
    destination_uri: str

    def open_destination(self, shovel: Shovel) -> DestinationDoor: ...

    def open_source(self, shovel: Shovel) -> SourceDoor: ...


class Shovel:
    """See the module. `start` it once; `stop` ends it for good. `on_finished`: its delete-after is reached."""

    def __init__(
        self,
        definition: ShovelDefinition,
        doors: ShovelDoors,
        forward_entry: Callable[[], dict[str, str]],
        clock: LinkClock,
        fraction: Callable[[], float],
        on_finished: Callable[[], None],
        on_ended: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.doors = doors
        self._definition = definition
        self._forward_entry = forward_entry
        self._clock = clock
        self._backoff = Backoff(definition.reconnect_delay_s, fraction)
        self._on_finished = on_finished
        self._on_ended = on_ended
        self._confirms = definition.ack_mode == "on-confirm"
        self._state, self._since_ms, self._reason = ShovelState.STARTING, clock.wall_ms(), ""
        self._forwarded = self._returned = self._restarts = self._stalls = 0
        self._moved_at = clock.monotonic()
        self._timer: LinkTimer | None = None
        self._watch: LinkTimer | None = None
        self._attempt = 0  # what belongs to an older one is not heard
        self._remaining: int | None = None
        self._run_out: LinkTimer | None = None
        self._reset()

    def _reset(self) -> None:
        self._source: SourceDoor | None = None
        self._destination: DestinationDoor | None = None
        self._transit = Transit()
        self._pending: deque[Delivered] = deque()
        self._pending_count = self._pending_bytes = self._giving_back = 0
        self._blocked: str | None = None
        self._writable = True
        self._paused = self._forwards_soon = False
        self._rewriting: Rewriting | None = None

    # ------------------------------------------------------------------------- life

    def start(self) -> None:
        self._attempt += 1
        self._enter(ShovelState.STARTING)
        self._moved_at = self._clock.monotonic()
        if self._watch is None:
            self._watch = self._clock.call_later(WATCH_S, self._look)
        self._destination = self.doors.open_destination(self)

    def restart(self, reason: str = "restarted by an operator") -> None:
        self._close()
        self._restarts += 1
        self._reason = reason
        self.start()

    def stop(self) -> None:
        self._close()
        self._end_timers()
        self._enter(ShovelState.TERMINATED)

    def _end_timers(self) -> None:
        for timer in (self._watch, self._run_out):
            if timer is not None:
                timer.cancel()
        self._watch = self._run_out = None

    def status(self) -> ShovelStatus:
        return ShovelStatus(
            self._state,
            self._reason,
            self._since_ms,
            self._remaining,
            None if self._remaining is None else self._remaining + self._transit.unanswered + self._giving_back,
            self._pending_count,
            self._transit.unanswered,
            self._forwarded,
            self._returned,
            self._restarts,
            self._stalls,
        )

    def _enter(self, state: ShovelState) -> None:
        if state is not self._state:
            self._state, self._since_ms = state, self._clock.wall_ms()

    def _close(self) -> None:
        """Both ends, and what was delivered and not acknowledged is the source's again."""
        source, destination = self._source, self._destination
        if self._remaining is not None:
            self._remaining += self._transit.unanswered + self._giving_back
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._attempt += 1
        self._reset()
        if source is not None:
            source.close()
        if destination is not None:
            destination.close()

    def _fail(self, reason: str) -> None:
        self._close()
        self._reason = reason
        self._enter(ShovelState.TERMINATED)
        self._on_ended(reason)
        delay_s = self._backoff.failed()
        if delay_s is not None:
            self._timer = self._clock.call_later(delay_s, self._begin_again)

    def _begin_again(self) -> None:
        self._timer = None
        self._restarts += 1
        self.start()

    def _finish(self) -> None:
        self._close()
        self._end_timers()
        self._reason = AUTODELETE
        self._enter(ShovelState.TERMINATED)
        self._on_finished()

    # ------------------------------------------------------------------------- the watchdog

    def _look(self) -> None:
        self._watch = self._clock.call_later(WATCH_S, self._look)
        idle_s = self._clock.monotonic() - self._moved_at
        if self._waits() and idle_s >= STALL_S:
            self._stalls += 1
            self._enter(ShovelState.STALLED)
            waiting = self._pending_count + self._transit.unanswered
            self.restart(f"stalled: {waiting} messages waited, and none moved for {int(idle_s)} s")

    def _waits(self) -> bool:
        """Whether there is work that should move. Not while the destination has said that it takes nothing."""
        said_so = self._blocked is not None or not self._writable
        return not said_so and bool(self._pending_count or self._transit.unanswered)

    def _moved(self) -> None:
        self._moved_at = self._clock.monotonic()

    # ------------------------------------------------------------------------- told by the doors

    def destination_ready(self) -> None:
        self._moved()
        self._source = self.doors.open_source(self)

    def source_ready(self, message_count: int) -> None:
        self._moved()
        after = self._definition.source.delete_after
        if self._remaining is None and after != "never":
            self._remaining = message_count if isinstance(after, str) else after
        self._time_its_end(self._definition.source.delete_after_s)
        self._rewriting = self._new_rewriting()
        self._update_state()
        self._finish_if_done()

    def _time_its_end(self, after_s: float | None) -> None:
        if after_s is not None and self._run_out is None:
            self._run_out = self._clock.call_later(after_s, self._time_is_over)

    def _time_is_over(self) -> None:
        """What is on its way arrives, and nothing more is taken."""
        self._remaining = 0
        if self._source is None:
            self._finish()
        else:
            self._finish_if_done()

    def delivered(self, run: Delivered) -> None:
        if self._destination is None:
            return
        self._moved()
        if run.first_tag != self._transit.published + self._pending_count + 1:
            self._fail(f"the source delivered tag {run.first_tag} out of turn")
            return
        self._pending.append(run)
        self._pending_count += run.count
        self._pending_bytes += len(run.content)
        self._update_reading()
        if not self._forwards_soon:
            self._forwards_soon = True
            self._clock.call_later(0.0, partial(self._forward_all, self._attempt))

    def _forward_all(self, attempt: int) -> None:
        """What came together."""
        if attempt == self._attempt:
            self._forwards_soon = False
            self._forward()

    def confirmed(self, confirmed: Confirmed) -> None:
        source = self._source
        if source is None:
            return
        self._moved()
        arrived, returned = self._transit.answered(confirmed.first, confirmed.last, multiple=confirmed.multiple)
        if confirmed.ok:
            for low, high in arrived:
                self._count_forwarded(high - low)
                source.acknowledge(low, high - 1, multiple=self._transit.settle(low, high))
        elif arrived:
            self._reason = "the destination refuses messages: a queue there is full, or cannot take them now"
        back = returned if confirmed.ok else [*arrived, *returned]
        if back:
            self._give_back_later(back)
        self._forward()
        self._finish_if_done()

    def returned(self, returned: PublishReturned) -> None:
        self._returned += 1
        where = f"exchange '{returned.exchange}' with key '{returned.routing_key}'"
        self._reason = f"{returned.text}: no queue takes messages for {where}"
        if not self._transit.came_back(returned.exchange, returned.routing_key, returned.props, returned.body):
            self._fail(f"a message came back that was not on its way, to {where}")

    def blocked(self, reason: str | None) -> None:
        self._blocked = reason
        self._moved()
        self._update_state()
        self._forward()

    def writable(self, writable: bool) -> None:
        self._writable = writable
        self._update_state()
        self._forward()

    def source_ended(self, reason: str) -> None:
        self._fail(f"source: {reason}")

    def destination_ended(self, reason: str) -> None:
        self._fail(f"destination: {reason}")

    # ------------------------------------------------------------------------- forwarding

    def _forward(self) -> None:
        while self._pending and self._may_publish():
            self._publish(self._next_batch())
        self._update_reading()
        self._finish_if_done()

    def _may_publish(self) -> bool:
        if self._destination is None or self._blocked is not None or not self._writable:
            return False
        return self._remaining != 0 and self._transit.bytes_held < IN_FLIGHT_BYTES_MAX

    def _next_batch(self) -> Batch:
        """What waits first, and what goes to the same place behind it; no more than is still wanted."""
        first = self._pending[0]
        target = self._target(first)
        contents: list[bytes] = []
        count = size = 0
        while self._pending and self._remaining != count and self._target(self._pending[0]) == target:
            size += len(self._pending[0].content)
            if contents and size > BATCH_BYTES_MAX:
                break
            run = self._next_run(None if self._remaining is None else self._remaining - count)
            contents.append(run.content)
            count += run.count
        return Batch(*target, first.first_tag, count, b"".join(contents))

    def _next_run(self, count_max: int | None) -> Delivered:
        """The first that waits, or as much of it as is wanted."""
        run = self._pending.popleft()
        if count_max is not None and run.count > count_max:
            run, rest = run.divided(count_max)
            self._pending.appendleft(rest)
        self._pending_count -= run.count
        self._pending_bytes -= len(run.content)
        return run

    def _publish(self, run: Batch) -> None:
        destination, source = self._destination, self._source
        assert destination is not None and source is not None, "a run of a shovel without ends"
        exchange, routing_key, content = run.exchange, run.routing_key, run.content
        if self._rewriting is not None:
            content = self._rewriting.rewritten(content, run.count, self._clock.wall_ms() // 1000)
        self._transit.sent(run, exchange, routing_key, content, confirms=self._confirms)
        if self._remaining is not None:
            self._remaining -= run.count
        destination.publish(exchange, routing_key, content, run.count, mandatory=self._confirms)
        if not self._confirms:
            self._count_forwarded(run.count)
            multiple = self._transit.settle(run.first_tag, run.first_tag + run.count)
            if self._definition.ack_mode == "on-publish":
                source.acknowledge(run.first_tag, run.first_tag + run.count - 1, multiple=multiple)

    def _target(self, run: Delivered) -> tuple[bytes, bytes]:
        terms = self._definition.destination
        if terms.queue is not None:
            return b"", terms.queue.encode()
        exchange = run.exchange if terms.exchange is None else terms.exchange.encode()
        return exchange, run.routing_key if terms.exchange_key is None else terms.exchange_key.encode()

    def _new_rewriting(self) -> Rewriting | None:
        terms = self._definition.destination
        entry = self._forward_entry() if terms.forward_headers else None
        rewriting = Rewriting(terms.properties, entry, timestamp=terms.timestamp_header)
        return rewriting if rewriting.changes_something else None

    def _count_forwarded(self, count: int) -> None:
        self._forwarded += count
        self._backoff.worked()

    def _update_reading(self) -> None:
        source = self._source
        if source is None:
            return
        full = self._pending_bytes + self._transit.bytes_held >= IN_FLIGHT_BYTES_MAX
        if full != self._paused:
            self._paused = full
            if full:
                source.pause()
            else:
                source.resume()

    def _update_state(self) -> None:
        if self._source is None:
            return
        if self._blocked is not None:
            self._enter(ShovelState.BLOCKED)
        else:
            self._enter(ShovelState.RUNNING if self._writable else ShovelState.FLOW)

    def _finish_if_done(self) -> None:
        done = self._remaining == 0 and not self._transit.unanswered and not self._giving_back
        if done and self._source is not None:
            self._finish()

    # ------------------------------------------------------------------------- what is not taken

    def _give_back(self, source: SourceDoor, ranges: list[Range]) -> None:
        for low, high in ranges:
            self._transit.settle(low, high)
            if self._remaining is not None:
                self._remaining += high - low
            source.give_back(low, high - 1)

    def _give_back_later(self, ranges: list[Range]) -> None:
        """At once it would be tried again at once, for ever."""
        attempt = self._attempt
        count = sum(high - low for low, high in ranges)
        self._giving_back += count

        def give_back() -> None:
            if attempt == self._attempt and self._source is not None:
                self._giving_back -= count
                self._give_back(self._source, ranges)
                self._forward()

        self._clock.call_later(max(RETURN_PAUSE_S, self._definition.reconnect_delay_s), give_back)
