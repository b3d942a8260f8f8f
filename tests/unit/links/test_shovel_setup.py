"""links/shovel/setup.py: what is asked of a broker before the first message, answer by answer."""

from __future__ import annotations

from typing import Any

import pytest

from links.amqp.conversation import ChannelRefused, Steps
from links.shovel.definition import read_definition
from links.shovel.setup import MAIN_CHANNEL, destination_steps, source_steps


def terms(**value: Any) -> Any:
    given = {
        "src-uri": "amqp://s",
        "dest-uri": "amqp://d",
        **{key.replace("_", "-"): one for key, one in value.items()},
    }
    return read_definition("s", given)


def asked(steps: Steps, *, queues: dict[str, int]) -> tuple[list[tuple[str, Any]], Any]:
    """The methods with the queue that each names, and the result, of a broker that has these queues."""
    said: list[tuple[str, Any]] = []
    try:
        request = steps.send(None)
        while True:
            _, method, arguments = request
            said.append((method, arguments.get("queue")))
            if arguments.get("passive") and arguments["queue"] not in queues:
                request = steps.throw(ChannelRefused(404, "NOT_FOUND - no queue"))
            else:
                name = arguments.get("queue") or "amq.gen-1"
                request = steps.send({"queue": name, "message_count": queues.get(name, 0)})
    except StopIteration as end:
        return said, end.value


def test_a_queue_that_is_there_is_taken_as_it_is() -> None:
    source = terms(src_queue="q").source
    said, count = asked(source_steps(source, 10, no_ack=False), queues={"q": 7})
    assert count == 7
    assert said == [
        ("channel.open", None), ("channel.open", None), ("queue.declare", "q"), ("basic.qos", None), ("basic.consume", "q"),
    ]  # fmt: skip


def test_one_that_is_not_is_declared() -> None:
    source = terms(src_queue="q").source
    said, count = asked(source_steps(source, 10, no_ack=True), queues={})
    assert count == 0
    assert [method for method, _ in said].count("queue.declare") == 2
    assert said[-1] == ("basic.consume", "q")


def test_a_queue_that_may_not_be_looked_at_is_not_declared() -> None:
    steps = source_steps(terms(src_queue="q").source, 10, no_ack=False)
    requests = [steps.send(None), steps.send({}), steps.send({})]
    assert requests[-1][1] == "queue.declare"
    with pytest.raises(ChannelRefused, match="403 ACCESS_REFUSED"):
        steps.throw(ChannelRefused(403, "ACCESS_REFUSED - no"))


def test_the_broker_closes_no_channel_that_messages_pass() -> None:
    """It closes the one on which a queue was asked for that is not there."""
    steps = source_steps(terms(src_queue="q").source, 10, no_ack=False)
    assert steps.send(None) == (MAIN_CHANNEL, "channel.open", {})
    asking = steps.send({})[0]
    assert steps.send({})[:2] == (asking, "queue.declare")
    declaring = steps.throw(ChannelRefused(404, "NOT_FOUND - no queue"))[0]
    assert steps.send({})[:2] == (declaring, "queue.declare")
    assert len({MAIN_CHANNEL, asking, declaring}) == 3
    assert steps.send({"queue": "q", "message_count": 0})[:2] == (MAIN_CHANNEL, "basic.qos")
    assert steps.send({})[:2] == (MAIN_CHANNEL, "basic.consume")


def test_a_predeclared_queue_is_not_declared() -> None:
    source = terms(src_queue="q", src_predeclared=True).source
    with pytest.raises(ChannelRefused, match="404 NOT_FOUND"):
        asked(source_steps(source, 10, no_ack=False), queues={})


def test_an_exchange_is_bound_to_a_queue_of_the_shovels_own() -> None:
    source = terms(src_exchange="e", src_exchange_key="k").source
    said, _ = asked(source_steps(source, 10, no_ack=False), queues={})
    assert said == [
        ("channel.open", None), ("queue.declare", ""), ("queue.bind", "amq.gen-1"), ("basic.qos", None),
        ("basic.consume", "amq.gen-1"),
    ]  # fmt: skip


def test_one_that_was_to_be_emptied_and_has_messages_is_consumed() -> None:
    source = terms(src_queue="q", src_delete_after="queue-length").source
    said, count = asked(source_steps(source, 10, no_ack=False), queues={"q": 3})
    assert (count, said[-1]) == (3, ("basic.consume", "q"))


def test_nothing_is_consumed_of_an_empty_queue_that_was_to_be_emptied() -> None:
    source = terms(src_queue="q", src_delete_after="queue-length").source
    said, count = asked(source_steps(source, 10, no_ack=False), queues={"q": 0})
    assert (count, said[-1]) == (0, ("basic.qos", None))


def test_a_destination_confirms_and_has_its_queue() -> None:
    said, _ = asked(destination_steps(terms(src_queue="q", dest_queue="d").destination, confirms=True), queues={})
    assert said[-1] == ("confirm.select", None)
    said, _ = asked(destination_steps(terms(src_queue="q").destination, confirms=False), queues={})
    assert said == [("channel.open", None)]
