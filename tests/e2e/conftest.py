"""One real node for all end-to-end tests; each test uses names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.running_node import RunningNode, running_node


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    config = tmp_path_factory.mktemp("node") / "leveret.toml"
    config.write_text("[metrics]\ncache_ms = 0\n")  # what tests do shows at once
    with running_node("--config", str(config)) as running:
        yield running
        assert running.process.poll() is None, f"the node ended during the tests: {running.log.read_text()[-4000:]}"
        code = running.stop()
    assert code == 0, f"the node's clean stop ended with {code}"
