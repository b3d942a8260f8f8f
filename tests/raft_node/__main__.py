"""One node: python -m tests.raft_node --number 1 --data-dir DIR --listen HOST:PORT --service HOST:PORT --peers 2=HOST:PORT,...

The nodes' common secret is read from the environment, RAFT_NODE_SECRET.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys

import grpc.aio
import uvloop

from node.run import Ending, keep_freed_memory, throttle_garbage_collection
from raft.store.store_limits import StoreLimits
from tests.raft_node.assemble import Options, RaftNode
from tests.raft_node.service import Service

MESSAGE_BYTES_MAX = 64 << 20


def options() -> tuple[Options, str]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--listen", required=True, help="for the other nodes")
    parser.add_argument("--service", required=True, help="for clients of the register machine")
    parser.add_argument("--peers", default="", help="NUMBER=HOST:PORT, with commas between them")
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--life", type=int, default=1, help="of an empty disk: above those of this node's disks before")
    parser.add_argument("--form", action="store_true", help="an empty disk begins new groups with the peers")
    parser.add_argument(
        "--keep-leaders", action="store_true", help="do not hand leaderships to the nodes that should have them"
    )
    parser.add_argument("--snapshot-entries", type=int, default=50_000)
    parser.add_argument("--log-file-bytes", type=int, default=64 << 20)
    parser.add_argument("--fsync-ms", type=int, default=0, help="how much longer each fsync is to take")
    parser.add_argument(
        "--store", default="", help="limits of raft/store/node_log.py: NAME=NUMBER, with commas between them"
    )
    given = parser.parse_args()
    return Options(
        number=given.number,
        data_dir=given.data_dir,
        listen=given.listen,
        peers={int(number): address for number, address in pairs(given.peers)},
        groups=given.groups,
        life=given.life,
        form=given.form,
        keep_leaders=given.keep_leaders,
        secret=os.environ["RAFT_NODE_SECRET"],
        snapshot_entries=given.snapshot_entries,
        log_file_bytes=given.log_file_bytes,
        fsync_s=given.fsync_ms / 1000,
        store=StoreLimits(**{name: int(number) for name, number in pairs(given.store)}),
    ), given.service


def pairs(text: str) -> list[list[str]]:
    return [pair.split("=", 1) for pair in text.split(",") if pair]


async def serve(given: Options, address: str) -> int:
    ending = Ending()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.stop_by_signal, signal.Signals(number).name)
    node = RaftNode(given, ending.stop)
    sizes = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=sizes)
    try:
        await node.start()
        server.add_generic_rpc_handlers((Service(node).handler(),))
        server.add_insecure_port(address)
        await server.start()
        throttle_garbage_collection()
        print(f"ready: node {given.number}", flush=True)
        await ending.wait()
    finally:
        await server.stop(None)
        await node.stop()
    return ending.exit_code


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    keep_freed_memory()
    return uvloop.run(serve(*options()))


if __name__ == "__main__":
    sys.exit(main())
