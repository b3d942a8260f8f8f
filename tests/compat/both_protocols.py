"""Asks a broker what a stream of it is for clients of AMQP 0-9-1 and for those of the stream protocol.

    .venv/bin/python -m tests.compat.both_protocols --amqp HOST:PORT --stream HOST:PORT [options of pytest]
    .venv/bin/python -m tests.compat.both_protocols ... --rabbitmq     a genuine one, which answers otherwise here and there

The cases are those of tests/contract/test_both_protocols.py, which has them answered by a node of its own. The user is guest
with the password guest. Messages that RabbitMQ ends a consumer's connection for are left out for it: stream_messages.py asks
for each of them alone.
"""

from __future__ import annotations

import argparse
import sys

import pytest

from tests.contract.stream_doors import BROKER, BrokerUnderTest

CASES = "tests/contract/test_both_protocols.py"  # from the root of the project, as pytest names it
ENDS_CONSUMERS_OF_RABBITMQ = "test_messages_that_rabbitmq_fails_on_are_delivered"


class NamedBroker:
    """A plugin of pytest: the cases are asked of this broker."""

    def __init__(self, broker: BrokerUnderTest) -> None:
        self._broker = broker

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[BROKER] = self._broker


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.compat.both_protocols", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--amqp", default="127.0.0.1:5672")
    parser.add_argument("--stream", default="127.0.0.1:5552")
    parser.add_argument("--rabbitmq", action="store_true", help="expect what docs/amqp-differences.md says of RabbitMQ")
    options, for_pytest = parser.parse_known_args()
    left_out = ["--deselect", f"{CASES}::{ENDS_CONSUMERS_OF_RABBITMQ}"] if options.rabbitmq else []
    plugin = NamedBroker(BrokerUnderTest(options.amqp, options.stream, options.rabbitmq))
    return int(pytest.main([CASES, "-n0", "-q", *left_out, *for_pytest], plugins=[plugin]))


if __name__ == "__main__":
    sys.exit(main())
