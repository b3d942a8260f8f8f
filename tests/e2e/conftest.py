"""One real node for all end-to-end tests; each test uses names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.running_node import RunningNode, running_node


@pytest.fixture(scope="session")
def node() -> Iterator[RunningNode]:
    with running_node() as running:
        yield running
        assert running.process.poll() is None, f"the node ended during the tests: {running.log.read_text()[-4000:]}"
        code = running.stop()
    assert code == 0, f"the node's clean stop ended with {code}"
