"""Metrics of messages since the node was started, by protocol: what passed, how large it was, and what clients were refused.

Counted by sessions, so that it stays when a queue is deleted. Every series is there from the start: Prometheus sees no increase
to the first value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from broker.counting.counters import Counters
from broker.counting.message_sizes import BOUNDS, MessageSizes
from wire.stream.command_keys import ResponseCode

# Of messages, since the node was started; these by protocol alone.
PUBLISHED = {
    "published": ("rabbitmq_global_messages_received", "Received from publishers"),
    "published_confirm": ("rabbitmq_global_messages_received_confirm", "Received from publishers that want confirms"),
    "routed": ("rabbitmq_global_messages_routed", "Routed to at least one queue"),
    "returned": ("rabbitmq_global_messages_unroutable_returned", "Unroutable, and returned as mandatory"),
    "dropped": ("rabbitmq_global_messages_unroutable_dropped", "Unroutable, and dropped"),
    "confirmed": ("rabbitmq_global_messages_confirmed", "Confirmed to their publishers"),
}
# And these by protocol and kind of queue.
DELIVERED = {
    "delivered": ("rabbitmq_global_messages_delivered_consume_manual_ack", "Delivered, to be acknowledged by hand"),
    "delivered_no_ack": ("rabbitmq_global_messages_delivered_consume_auto_ack", "Delivered, acknowledged by that"),
    "got": ("rabbitmq_global_messages_delivered_get_manual_ack", "Taken with basic.get, to be acknowledged"),
    "got_no_ack": ("rabbitmq_global_messages_delivered_get_auto_ack", "Taken with basic.get, acknowledged by that"),
    "got_empty": ("rabbitmq_global_messages_get_empty", "basic.get of an empty queue"),
    "redelivered": ("rabbitmq_global_messages_redelivered", "Delivered again"),
    "acknowledged": ("rabbitmq_global_messages_acknowledged", "Acknowledged"),
}
HANDED_OUT = ("delivered", "delivered_no_ack", "got", "got_no_ack")
PROTOCOLS = {
    "AMQP 0-9-1": "amqp091",
    "stream": "stream",
    "gRPC": "grpc",
    "HTTP": "http",
    "Direct 0-9-1": "direct",  # links
}  # as the broker names them -> the label's value
CLASSIC, STREAM = "rabbit_classic_queue", "rabbit_stream_queue"
DEAD_LETTER_STRATEGY = "at_most_once"
# Codes of the stream protocol, as RabbitMQ names what went wrong.
STREAM_ERRORS = {
    ResponseCode.NO_SUCH_STREAM: "stream_does_not_exist",
    ResponseCode.SUBSCRIPTION_ID_EXISTS: "subscription_id_already_exists",
    ResponseCode.NO_SUCH_SUBSCRIPTION: "subscription_id_does_not_exist",
    ResponseCode.STREAM_EXISTS: "stream_already_exists",
    ResponseCode.STREAM_NOT_AVAILABLE: "stream_not_available",
    ResponseCode.SASL_MECHANISM_UNSUPPORTED: "sasl_mechanism_not_supported",
    ResponseCode.AUTHENTICATION_FAILED: "authentication_failure",
    ResponseCode.SASL_ERROR: "sasl_error",
    ResponseCode.SASL_CHALLENGE: "sasl_challenge",
    ResponseCode.LOOPBACK_REFUSED: "sasl_authentication_failure_loopback",
    ResponseCode.VHOST_REFUSED: "vhost_access_failure",
    ResponseCode.UNKNOWN_FRAME: "unknown_frame",
    ResponseCode.FRAME_TOO_LARGE: "frame_too_large",
    ResponseCode.INTERNAL_ERROR: "internal_error",
    ResponseCode.ACCESS_REFUSED: "access_refused",
    ResponseCode.PRECONDITION_FAILED: "precondition_failed",
    ResponseCode.NO_SUCH_PUBLISHER: "publisher_does_not_exist",
}


def passed(by_protocol: Mapping[str, Counters]) -> Iterator[Metric]:
    counters = {label: by_protocol.get(protocol, Counters()) for protocol, label in PROTOCOLS.items()}
    for part, (name, help_text) in PUBLISHED.items():
        family = CounterMetricFamily(name, help_text, labels=["protocol"])
        for label, counted in counters.items():
            family.add_metric([label], getattr(counted, part))
        yield family
    for part, (name, help_text) in DELIVERED.items():
        yield _of_queues(name, help_text, {label: getattr(counted, part) for label, counted in counters.items()})
    handed_out = {label: sum(getattr(counted, part) for part in HANDED_OUT) for label, counted in counters.items()}
    yield _of_queues("rabbitmq_global_messages_delivered", "Delivered or taken, in whatever way", handed_out)


def _of_queues(name: str, help_text: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=["protocol", "queue_type"])
    for label, count in counts.items():
        family.add_metric([label, STREAM if label == "stream" else CLASSIC], count)
    return family


def died(by_reason: Mapping[str, int]) -> Iterator[Metric]:
    for reason, dead in by_reason.items():
        name = f"rabbitmq_global_messages_dead_lettered_{reason}"
        family = CounterMetricFamily(name, f"Dead-lettered: {reason}", labels=["queue_type", "dead_letter_strategy"])
        family.add_metric([CLASSIC, DEAD_LETTER_STRATEGY], dead)
        yield family


def sizes(by_protocol: Mapping[str, MessageSizes]) -> Metric:
    """Of messages that came together the mean size counts."""
    family = HistogramMetricFamily("rabbitmq_message_size_bytes", "Sizes of published messages", labels=["protocol"])
    for protocol, label in PROTOCOLS.items():
        counted = by_protocol.get(protocol, MessageSizes())
        buckets, so_far = [], 0
        for bound, count in zip((*map(float, BOUNDS), float("inf")), counted.counts, strict=True):
            so_far += count
            buckets.append((_bound_text(bound), so_far))
        family.add_metric([label], buckets, counted.bytes)
    return family


def _bound_text(bound: float) -> str:
    """As Go writes numbers, for dashboards name bounds by their text."""
    if bound == float("inf"):
        return "+Inf"
    return f"{bound:.0e}" if bound >= 1_000_000 else str(bound)


def stream_errors(by_code: Counter[int]) -> Iterator[Metric]:
    for code, name in STREAM_ERRORS.items():
        family = CounterMetricFamily(
            f"rabbitmq_global_stream_error_{name}", f"Stream clients were told: {name}", labels=["protocol"]
        )
        family.add_metric(["stream"], by_code[code])
        yield family
