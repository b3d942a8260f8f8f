"""What deploy/compose.yaml must not lose, seen without an engine; what runs there is in tests/containers."""

from __future__ import annotations

import re
from pathlib import Path

COMPOSE = (Path(__file__).parents[2] / "deploy" / "compose.yaml").read_text()


def test_questions_see_the_data_of_every_node_and_change_none() -> None:
    nodes = set(re.findall(r"^ +- (\w+):/var/lib/leveret$", COMPOSE, re.MULTILINE)) - {"secret"}
    seen = dict(re.findall(r"^ +- (\w+):/data/(.+)$", COMPOSE, re.MULTILINE))
    assert seen == {node: f"{node}:ro" for node in nodes}
    assert len(nodes) == 4
