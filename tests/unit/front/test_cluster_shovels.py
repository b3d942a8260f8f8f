"""front/cluster_shovels.py where no node runs what is declared."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.errors import NotFound, PreconditionFailed
from broker.operations.operations import Operations
from broker.operations.operator import ADMINISTRATOR, Operator
from front.cluster_shovels import ClusterShovels
from front.web.everywhere import Everywhere
from tests.unit.front.grpc.fakes import FakeBroker, FakeNode, FakeShovels

GUEST = Operator("guest", (ADMINISTRATOR,))


class Static(FakeShovels):
    """What runs is of the configuration file."""

    def facts(self) -> list[Any]:
        return [replace(one, type="static") for one in super().facts()]


def shovels_of(own: FakeShovels | None, broker: Any) -> ClusterShovels:
    parameters = Operations(broker, FakeNode()).parameters
    return ClusterShovels("n1", broker.catalog, parameters, Everywhere(None), own)


def test_one_that_no_node_runs_yet_is_shown_and_can_be_deleted() -> None:
    async def work() -> None:
        shovels = shovels_of(None, FakeBroker())
        shovels.put(GUEST, "/", "s", {"src-queue": "q"}, create_only=True)
        (row,) = (await shovels.listed(GUEST, None)).rows
        assert (row["name"], row["node"], row["state"], row["reason"]) == ("s", "", "starting", "no node runs it yet")
        with pytest.raises(NotFound, match="no shovel 's' runs"):
            await shovels.restart(GUEST, "/", "s")
        await shovels.delete(GUEST, "/", "s")
        assert (await shovels.listed(GUEST, "/")).rows == []

    asyncio.run(work())


def test_what_a_node_says_of_one_is_all_that_is_shown_of_it() -> None:
    async def work() -> None:
        broker: Any = FakeBroker()
        shovels = shovels_of(FakeShovels(broker.catalog), broker)
        shovels.put(GUEST, "/", "s", {"src-queue": "q"}, create_only=True)
        assert [(row["name"], row["node"]) for row in (await shovels.listed(GUEST, None)).rows] == [
            ("first", "n1"),
            ("s", "n1"),
        ]

    asyncio.run(work())


def test_one_of_the_configuration_file_is_not_deleted_from_outside() -> None:
    async def work() -> None:
        broker: Any = FakeBroker()
        shovels = shovels_of(Static(broker.catalog), broker)
        assert (await shovels.one(GUEST, "/", "first"))["type"] == "static"
        with pytest.raises(PreconditionFailed, match="of the configuration file"):
            await shovels.delete(GUEST, "/", "first")
        with pytest.raises(NotFound):
            await shovels.delete(GUEST, "/", "second")

    asyncio.run(work())
