"""Message annotations in which an AMQP 1.0 message keeps what only AMQP 0-9-1 knows."""

EXCHANGE = "x-exchange"
ROUTING_KEY = "x-routing-key"
TYPE = "x-basic-type"
DELIVERY_MODE = "x-basic-delivery-mode"
PRIORITY = "x-basic-priority"
EXPIRATION = "x-basic-expiration"
CARBON_COPIES = "x-cc"  # the header CC
DEATHS = "x-opt-deaths"  # the header x-death, see deaths.py
RECEIVED_TIME = "x-opt-rabbitmq-received-time"  # the header timestamp_in_ms
# All properties as they were published, where the other sections would lose something. RabbitMQ has no such annotation.
WHOLE_PROPERTIES = "x-leveret-091"

_BASIC = "x-basic-"
_INTERNAL = frozenset({EXCHANGE, ROUTING_KEY, DEATHS, WHOLE_PROPERTIES, "x-death", "x-stream-offset"})

# The type of a message whose body is sections of AMQP 1.0, each as it is.
AMQP10_TYPE = b"amqp-1.0"


def is_header(name: str) -> bool:
    """Whether an annotation of this name is a header of AMQP 0-9-1."""
    return name.startswith("x-") and not name.startswith(_BASIC) and name not in _INTERNAL
