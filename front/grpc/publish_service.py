"""Publishing streams: batches become runs, the broker's answers become confirms.

What the broker cannot take (an exchange that does not exist, no permission) refuses the messages concerned and leaves the
stream open: other publishers of the same program share it. Confirms wait merged into ranges, so a client that reads
slowly costs little, and one that does not read at all is not read from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import grpc.aio

from broker.errors import BrokerError, InvalidRequest
from broker.messages.confirms import Answer, merged
from broker.messages.message import Run
from broker.pending import Pending
from front.grpc import convert
from front.grpc.call import Context, Front, answers_errors
from front.grpc.numbers import Numbers
from front.grpc.runs import pieces_of
from front.grpc.stream import Stream
from leveret.v1 import message_pb2, publish_pb2, publish_pb2_grpc

# Answers that may wait for a client that does not read them before it is not read from either.
WAITING_ANSWERS_MAX = 10_000

STEP_MESSAGES = 1_000  # of a batch in one turn: 1 to 5 ms, and a request may have millions of small ones

REFERENCE_BYTES_MAX = 255
NUMBER_MAX = (1 << 63) - 1  # that a publisher with a name may give a message

SEQUENCE_END = 1 << 64  # what a uint64 of an answer can say ends below it


class PublishService(publish_pb2_grpc.PublisherServicer):
    """leveret.v1.Publisher."""

    def __init__(self, front: Front) -> None:
        self.front = front

    @answers_errors
    async def Publish(self, requests: object, context: Context) -> None:
        await PublishStream(self.front, context).serve()


class PublishStream(Stream):
    """One publisher. Its session numbers what it takes from 1; the client numbers what it sends as it likes."""

    def __init__(self, front: Front, context: Context) -> None:
        super().__init__(front, context)
        self._numbers = Numbers()
        self._next_sequence: int | None = None  # of the client; None before the first batch
        self._publishing = 0  # the client's number of the first message of the run that is being published
        self._answers: list[Answer] = []  # in the client's numbers, waiting to be written
        self._refusals: list[publish_pb2.Refusal] = []
        self._returns: list[publish_pb2.Returned] = []
        self._blocked: deque[str] = deque()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._blocked_reason: str | None = None

    def opened(self) -> None:
        self.session.publisher.select_confirms()

    def opened_response(self) -> publish_pb2.PublishResponse:
        return publish_pb2.PublishResponse(opened=self.opened_message())

    # ------------------------------------------------------------------ requests

    async def read_requests(self) -> None:
        while True:
            await self._may_read.wait()
            request = await self.read()
            if request is grpc.aio.EOF:
                return
            if request.WhichOneof("kind") != "batch":
                raise InvalidRequest(f"after `open` a publisher sends `batch`, not `{request.WhichOneof('kind')}`")
            await self._publish(request.batch)

    async def _publish(self, batch: publish_pb2.PublishBatch) -> None:
        """A step at a time: others have their turns in between. Until the next batch may follow."""
        sequence = first = self._take_numbers(batch)
        step_end = first + STEP_MESSAGES
        published: Pending[None] | None = None
        for piece in pieces_of(batch, self.front.message_bytes_max):
            if isinstance(piece, Run):
                number = batch.first_number + sequence - first
                published = self._publish_run(sequence, piece, batch.publisher, number) or published
                sequence += piece.count
            else:
                self._refuse(sequence, 1, piece)
                sequence += 1
            if sequence >= step_end:
                await self._end_step(published)
                published, step_end = None, sequence + STEP_MESSAGES
                await asyncio.sleep(0)
                await self._may_read.wait()
        await self._end_step(published)

    async def _end_step(self, published: Pending[None] | None) -> None:
        self.front.broker.end_turn()
        if published is not None:
            await self.front.answer(published)

    def _take_numbers(self, batch: publish_pb2.PublishBatch) -> int:
        first = batch.first_sequence
        if self._next_sequence is not None and first != self._next_sequence:
            raise InvalidRequest(f"a batch begins with sequence {first}, expected {self._next_sequence}")
        if first + len(batch.messages) > SEQUENCE_END:
            raise InvalidRequest(
                f"{len(batch.messages)} messages from sequence {first} on: a sequence is below {SEQUENCE_END}. Begin lower"
            )
        if batch.publisher:
            _check_numbered(batch)
        self._next_sequence = first + len(batch.messages)
        return first

    def _publish_run(self, sequence: int, run: Run, publisher: str, number: int) -> Pending[None] | None:
        """With a publisher's name, `number` is what that has given the first message."""
        self._publishing = sequence
        self._numbers.expect(sequence, run.count)
        try:
            if publisher:
                return self.session.publisher.publish_numbered(run, publisher, number, self.front.now)
            return self.session.publisher.publish(run, self.front.now)
        except BrokerError as error:
            self._numbers.take_back(run.count)
            self._refuse(sequence, run.count, error)
            return None

    def _refuse(self, first: int, count: int, error: BrokerError) -> None:
        self._refusals.append(
            publish_pb2.Refusal(
                first=first,
                last=first + count - 1,
                error=convert.error_name(error),
                text=convert.text(error.text),
            )
        )
        self._something_waits()

    # ------------------------------------------------------------------ the session's sink

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        for own_first, own_last in self._numbers.answered(first, last):
            self._answers.append((own_first, own_last, ok))
        self._something_waits()

    def returned(self, run: Run, code: int, text: str) -> None:
        first = self._publishing
        self._returns.append(
            publish_pb2.Returned(first=first, last=first + run.count - 1, code=code, text=convert.text(text))
        )
        self._something_waits()

    def set_blocked(self, reason: str | None) -> None:
        self._blocked_reason = reason
        self._blocked.append(reason or "")
        self._something_waits()

    def statistics(self) -> dict[str, Any]:
        state = "running" if self._blocked_reason is None else "blocked"
        return {**super().statistics(), "state": state, "unconfirmed": self._numbers.unanswered}

    def _something_waits(self) -> None:
        self.wake_writer()
        self._decide_reading()

    def _decide_reading(self) -> None:
        waiting = len(self._answers) + len(self._refusals) + len(self._returns)
        if self._blocked_reason is None and waiting < WAITING_ANSWERS_MAX:
            self._may_read.set()
        else:
            self._may_read.clear()

    # ------------------------------------------------------------------ responses

    def owes_nothing(self) -> bool:
        return self._numbers.unanswered == 0

    async def write_responses(self) -> None:
        for response in self._take_responses():
            await self.write(response)

    def _take_responses(self) -> Iterable[publish_pb2.PublishResponse]:
        """Returns go before confirms: a returned message is confirmed after its return, and both wait here together."""
        responses = [publish_pb2.PublishResponse(blocked=publish_pb2.Blocked(reason=text)) for text in self._blocked]
        responses += [publish_pb2.PublishResponse(returned=returned) for returned in self._returns]
        if self._answers or self._refusals:
            answers = merged(self._answers)
            confirms = publish_pb2.Confirms(
                accepted=[message_pb2.Range(first=first, last=last) for first, last, ok in answers if ok],
                refused=[publish_pb2.Refusal(first=first, last=last) for first, last, ok in answers if not ok],
            )
            confirms.refused.extend(self._refusals)
            responses.append(publish_pb2.PublishResponse(confirms=confirms))
        self._blocked.clear()
        self._returns, self._answers, self._refusals = [], [], []
        self._decide_reading()
        return responses


def _check_numbered(batch: publish_pb2.PublishBatch) -> None:
    size = len(batch.publisher.encode())
    if size > REFERENCE_BYTES_MAX:
        raise InvalidRequest(f"the name of a publisher has at most {REFERENCE_BYTES_MAX} bytes, not {size}")
    if not 0 < batch.first_number <= NUMBER_MAX + 1 - len(batch.messages):
        raise InvalidRequest(f"messages are numbered from 1 to {NUMBER_MAX}, not from {batch.first_number} on")
