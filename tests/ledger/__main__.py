"""`python -m tests.ledger --kind classic|quorum|stream --seeds N [--nodes 3]`: ends with 1 when the log tells something else.

On three nodes, and of streams on one, clients work at all of them, and one node after the other is killed meanwhile. Such
a run ends with 1, too, when nobody saw a kill, a confirm and what a client had to be sure of: nothing was compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.ledger.notes import Notes, compared
from tests.ledger.script import EARLY_S, Script
from tests.ledger.stream_ledger import ledger_of_streams
from tests.ledger.three_nodes import ledger_of_nodes
from tests.ledger.told import told
from tests.running_node import start_node

STEPS = 40
KILL_EACH = 5  # seeds: in each of so many the node is killed


def ledger(directory: Path, kind: str, seeds: range, steps: int = STEPS, *, kill_each: int = KILL_EACH) -> list[str]:
    """Run these seeds, one after the other, on one node; what its log tells otherwise than the clients."""
    node = start_node(directory / "n1")
    notes = Notes()
    try:
        for seed in seeds:
            script = Script(node, kind, seed)
            try:
                notes.messages |= script.run(steps, kill=bool(kill_each) and seed % kill_each == 0).messages
            finally:
                node = script.node
    finally:
        node.stop()
    return compared(notes, told(directory / "n1"), EARLY_S[kind])


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.ledger", description=__doc__)
    parser.add_argument("--kind", choices=("classic", "quorum", "stream"), required=True)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument(
        "--kill-each", type=int, default=KILL_EACH, help="kill the only node in each of so many; 0: never"
    )
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    with tempfile.TemporaryDirectory(prefix="leveret-ledger-") as directory:
        if options.kind == "stream":
            found = ledger_of_streams(Path(directory), seeds, options.nodes)
        elif options.nodes == 1:
            found = ledger(Path(directory), options.kind, seeds, options.steps, kill_each=options.kill_each)
        else:
            found = ledger_of_nodes(Path(directory), options.kind, seeds)
    for one in found:
        print(one)
    print(
        f"{options.kind}, {options.nodes} nodes: {options.seeds} seeds from {options.first}, {len(found)} differences"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
