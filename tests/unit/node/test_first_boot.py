"""node/membership/first_boot.py over real listeners on the loopback: nodes that start at once, join, and come back."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import AddNode
from broker.catalog.parts.disk_lives import FIRST_LIFE
from broker.records import NodeRecord
from node.config import ClusterSection, Config, ConfigError, ListenSection
from node.config_peers import boot_settings, peer_settings
from node.identity import DISK, RAM, Bound, KnownNode, NodeIdentity, Place
from node.membership import first_boot
from node.membership.first_boot import (
    BootSettings,
    FirstBoot,
    NoPlace,
    StartingDoorman,
    check_name,
    configured_places,
    take_place,
)
from node.peers import peer_pb2
from node.peers.side import PeerSide
from node.peers.stranger import NoAnswer
from storage import fact_file, names
from tests.ports import free_ports
from tests.sim.disk import SimDisk

NOW = 1_700_000_000_000
TIMEOUT_S = 20.0
SECRET = "a secret that all nodes know"


@dataclass
class Booting:
    config: Config
    disk: SimDisk
    identity: NodeIdentity
    peers: PeerSide

    async def take_place(self) -> NodeIdentity:
        async with asyncio.timeout(TIMEOUT_S):
            await take_place(boot_settings(self.config), self.identity, self.peers, os.urandom)
        return self.identity


class Welcoming(StartingDoorman):
    """A member that takes everybody in, or says why not."""

    def __init__(self, identity: NodeIdentity, refusal: str = "", removed: str = "") -> None:
        super().__init__(identity)
        self._refusal, self._removed = refusal, removed
        self._last = 1

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        greeted = await super().greet(greeting)
        greeted.removed = self._removed
        greeted.nodes.append(peer_pb2.KnownNode(number=9, name="n9", address="n9:1", kind=DISK))
        return greeted

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        if self._refusal:
            return peer_pb2.JoinResponse(refusal=self._refusal)
        self._last += 1
        founder = peer_pb2.KnownNode(number=1, name="n1", address="n1:1", kind=DISK)
        return peer_pb2.JoinResponse(
            number=self._last, cluster_id=request.cluster_id, nodes=[founder], disk_id=FIRST_LIFE
        )


@asynccontextmanager
async def booting(
    name: str, section: ClusterSection, disk: SimDisk | None = None, listen: str = "127.0.0.1:0"
) -> AsyncIterator[Booting]:
    config = Config(listen=ListenSection(peer=listen), cluster=section)
    disk = disk or SimDisk()
    peers = PeerSide(peer_settings(config), time.monotonic, os.urandom, logging.getLogger("leveret"))
    await peers.listen()
    identity = NodeIdentity.begin(disk, name, RAM if section.ram else DISK, NOW, os.urandom)
    try:
        yield Booting(config, disk, identity, peers)
    finally:
        await peers.stop()


def section(peers: Sequence[str] = (), join: str = "") -> ClusterSection:
    return ClusterSection(secret=SECRET, peers=tuple(peers), join=join)


def test_a_node_without_peers_founds_alone_and_is_itself_at_the_next_start() -> None:
    async def scenario() -> None:
        async with booting("n1", ClusterSection()) as one:
            assert (await one.take_place()).place.founds
        async with booting("n1", ClusterSection(), one.disk) as again:
            identity = await again.take_place()
            assert identity.cluster_id == one.identity.cluster_id
            assert identity.place.founds

    asyncio.run(scenario())


def test_three_nodes_that_start_at_once_are_one_cluster() -> None:
    async def scenario() -> None:
        ports = [f"127.0.0.1:{port}" for port in free_ports(3)]  # they know each other before they listen
        async with (
            booting("n1", section(ports), listen=ports[0]) as one,
            booting("n2", section(ports), listen=ports[1]) as two,
            booting("n3", section(ports), listen=ports[2]) as three,
        ):
            others = [asyncio.ensure_future(node.take_place()) for node in (two, three)]
            founder = await one.take_place()
            one.peers.answer_strangers(Welcoming(founder))
            await asyncio.gather(*others)
            assert founder.place.founds
            numbers = sorted(node.identity.number for node in (one, two, three))
            assert numbers == [1, 2, 3]
            assert {node.identity.cluster_id for node in (one, two, three)} == {founder.cluster_id}
            assert not two.identity.place.founds
            assert two.identity.place.others == (KnownNode(1, "n1", "n1:1", DISK),)

    asyncio.run(scenario())


def bound_on_disk(node: Booting) -> Bound | None:
    """What the next process would find, if this one ended now."""
    return NodeIdentity.begin(node.disk.copy(), node.identity.name, DISK, NOW, os.urandom).bound


def test_a_promise_to_a_founder_is_on_disk_before_it_is_given() -> None:
    """A node that forgets one in a restart promises itself to another founder, and there are two clusters."""

    async def scenario() -> None:
        async with booting("n2", section(["127.0.0.1:1"])) as two:
            assert two.peers.stranger is not None
            boot = FirstBoot(boot_settings(two.config), two.identity, two.peers, two.peers.stranger, os.urandom)
            knows = ["127.0.0.1:1", two.peers.address]
            question = peer_pb2.Greeting(
                instance="i1", name="n1", address="127.0.0.1:1", knows=knows, founding="cluster 1"
            )
            assert (await boot.greet(question)).promised
            assert bound_on_disk(two) == Bound("cluster 1", "127.0.0.1:1", "i1", exists=False)

    asyncio.run(scenario())


def test_who_asks_to_be_taken_in_has_on_disk_where_it_belongs() -> None:
    """If the answer is lost, the cluster has this node, and the next process must not join or found another one."""
    at_the_request: list[Bound | None] = []

    async def scenario() -> None:
        async with booting("n1", section()) as one, booting("n2", section(join=one.peers.address)) as two:

            class Looking(Welcoming):
                async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
                    at_the_request.append(bound_on_disk(two))
                    return await super().join(request)

            founder = await one.take_place()
            one.peers.answer_strangers(Looking(founder))
            await two.take_place()
            assert at_the_request == [Bound(founder.cluster_id, one.peers.address, founder.instance, exists=True)]

    asyncio.run(scenario())


def test_a_node_that_is_refused_for_long_stops_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.membership.first_boot.REFUSED_S_MAX", 0.0)

    async def scenario() -> None:
        async with booting("n1", section()) as one:
            one.peers.answer_strangers(Welcoming(await one.take_place(), refusal="the name 'n2' is in use"))
            async with booting("n2", section(join=one.peers.address)) as two:
                with pytest.raises(NoPlace, match="the name 'n2' is in use"):
                    await two.take_place()
                assert two.identity.blank

    asyncio.run(scenario())


class Scripted(Welcoming):
    """Says these things first, and notes how old each process is that asks."""

    def __init__(self, identity: NodeIdentity, *answers: peer_pb2.JoinResponse) -> None:
        super().__init__(identity)
        self.incarnations: list[int] = []
        self._answers = list(answers)

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        self.incarnations.append(request.incarnation)
        return self._answers.pop(0) if self._answers else await super().join(request)


def test_a_refusal_counts_from_the_last_time_that_there_was_none_and_a_clock_that_is_behind_is_got_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("node.membership.first_boot.REFUSED_S_MAX", 0.0)
    in_use = peer_pb2.JoinResponse(refusal="the name 'n2' is in use")
    behind = peer_pb2.JoinResponse(refusal="its clock is behind", later=True, incarnation=NOW + 5_000)

    async def scenario() -> None:
        async with booting("n1", section()) as one:
            doorman = Scripted(await one.take_place(), in_use, behind, in_use)
            one.peers.answer_strangers(doorman)
            async with booting("n2", section(join=one.peers.address)) as two:
                assert (await two.take_place()).number == 2
                assert doorman.incarnations[:2] == [NOW, NOW]
                assert min(doorman.incarnations[2:]) > NOW + 5_000

    asyncio.run(scenario())


def test_a_node_that_is_not_ready_to_take_others_in_has_them_ask_later() -> None:
    async def scenario() -> None:
        async with booting("n1", section(["n9:1"])) as one:
            stranger = one.peers.stranger
            assert stranger is not None
            boot = FirstBoot(boot_settings(one.config), one.identity, one.peers, stranger, os.urandom)
            for doorman in (StartingDoorman(one.identity), boot):
                assert (await doorman.join(peer_pb2.JoinRequest())).later

    asyncio.run(scenario())


def test_a_node_that_comes_back_learns_new_addresses_and_whether_it_was_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_boot, "ANSWER_S", TIMEOUT_S)  # without an answer it goes on with what it knows

    async def scenario() -> None:
        async with booting("n1", section()) as one:
            founder = await one.take_place()
            one.peers.answer_strangers(Welcoming(founder))
            async with booting("n2", section(join=one.peers.address)) as two:
                await two.take_place()
            async with booting("n2", section(join=one.peers.address), two.disk) as again:
                identity = await again.take_place()
                assert identity.place.others == (KnownNode(9, "n9", "n9:1", DISK),)
            one.peers.answer_strangers(Welcoming(founder, removed="it was forgotten"))
            async with booting("n2", section(join=one.peers.address), two.disk) as removed:
                with pytest.raises(NoPlace, match="'n2' belongs to its cluster no more: it was forgotten"):
                    await removed.take_place()

    asyncio.run(scenario())


def test_data_from_before_there_were_clusters_are_kept_by_a_node_alone_and_not_taken_along() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        fact_file.save(disk, names.LOG_FACTS, {"log_id": "00"})
        async with booting("n1", section(join="127.0.0.1:1"), disk) as joining:
            with pytest.raises(NoPlace, match="holds data of a node that belonged to no cluster"):
                await joining.take_place()
        async with booting("n1", section(), disk) as alone:
            assert (await alone.take_place()).place.founds

    asyncio.run(scenario())


def test_data_of_one_cluster_is_not_taken_to_another() -> None:
    async def scenario() -> None:
        async with booting("n1", section()) as one, booting("n2", section()) as two:
            one.peers.answer_strangers(Welcoming(await one.take_place()))
            await two.take_place()
            async with booting("n2", section(join=one.peers.address), two.disk) as again:
                with pytest.raises(NoPlace, match="give an empty directory"):
                    await again.take_place()

    asyncio.run(scenario())


def test_a_neighbour_that_belongs_nowhere_yet_keeps_no_node_from_starting() -> None:
    async def scenario() -> None:
        async with booting("n1", section()) as one, booting("n2", section()) as blank:
            await one.take_place()
            blank.peers.answer_strangers(StartingDoorman(blank.identity))
            async with booting("n1", section([blank.peers.address]), one.disk) as again:
                assert (await again.take_place()).cluster_id == one.identity.cluster_id

    asyncio.run(scenario())


@pytest.mark.parametrize("is_ram", [False, True])
def test_who_is_to_join_and_ram_nodes_found_nothing(is_ram: bool) -> None:
    """Also where nobody else answers."""

    async def scenario() -> None:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        cluster = ClusterSection(secret=SECRET, peers=(address,), ram=True) if is_ram else section(join=address)
        async with booting("n1", cluster, listen=address) as one:
            assert one.peers.stranger is not None
            boot = FirstBoot(boot_settings(one.config), one.identity, one.peers, one.peers.stranger, os.urandom)
            assert not boot._discovery._may_found

    asyncio.run(scenario())


def test_a_directory_is_not_started_under_another_name_than_its_nodes() -> None:
    catalog = Catalog()
    catalog.apply(AddNode(NodeRecord("n1", 0, FIRST_LIFE, "n1:1")))
    place = Place("0123", 1, "n1", DISK, disk_id=FIRST_LIFE, incarnation=1, founds=True, others=())
    check_name(place, catalog, "/data")
    with pytest.raises(NoPlace, match="/data belongs to node 'n1', and this node is named 'other'"):
        check_name(replace(place, name="other"), catalog, "/data")
    check_name(replace(place, number=2, name="other"), catalog, "/data")  # the catalog has yet to hear of it


def test_nodes_that_show_each_other_certificates_join_and_one_without_does_not(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for part in issued.cert_chain_pems:
        part.write_to_path(tmp_path / "certificate.pem", append=True)

    def with_tls(join: str = "") -> ClusterSection:
        files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "key", "certificate")}
        return ClusterSection(
            secret=SECRET, join=join, tls_ca=files["ca"], tls_key=files["key"], tls_certificate=files["certificate"]
        )

    async def scenario() -> None:
        async with booting("n1", with_tls()) as one:
            one.peers.answer_strangers(Welcoming(await one.take_place()))
            async with booting("n2", with_tls(join=one.peers.address)) as two:
                assert (await two.take_place()).number == 2
            async with booting("n3", section(join=one.peers.address)) as three:
                assert three.peers.stranger is not None
                with pytest.raises(NoAnswer):
                    await three.peers.stranger.greet(one.peers.address, peer_pb2.Greeting(), TIMEOUT_S)

    asyncio.run(scenario())


def test_certificates_that_are_not_there_are_named() -> None:
    files = {"tls_ca": "no-ca.pem", "tls_key": "no-key.pem", "tls_certificate": "no-certificate.pem"}
    config = Config(cluster=ClusterSection(secret=SECRET, **files))
    with pytest.raises(ConfigError, match=r"no-ca\.pem: No such file"):
        peer_settings(config)


def test_a_secret_that_is_too_short_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError, match="has 5 bytes; give at least 16") as refused:
        peer_settings(Config(cluster=ClusterSection(secret="weaky")))
    assert "weaky" not in str(refused.value)


def test_a_name_whose_addresses_are_the_nodes_is_enough_to_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.membership.first_boot.SETTLED_S", 0.2)

    async def scenario() -> None:
        port = free_ports(1)[0]
        dns = ClusterSection(secret=SECRET, dns=f"localhost:{port}", nodes_expected=1)
        async with booting("n1", dns, listen=f"127.0.0.1:{port}") as one:
            monkeypatch.setattr(
                asyncio.get_running_loop(),
                "getaddrinfo",
                lambda host, port, type: asyncio.sleep(0, [(2, type, 6, "", ("127.0.0.1", port))]),  # noqa: A006
            )
            assert (await one.take_place()).place.founds

    asyncio.run(scenario())


def test_nothing_is_founded_before_the_name_service_has_said_the_same_for_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the pause, nodes whose addresses appear one after the other would each found a cluster."""
    monkeypatch.setattr("node.membership.first_boot.SETTLED_S", 1.0)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        port = free_ports(1)[0]
        dns = ClusterSection(secret=SECRET, dns=f"localhost:{port}", nodes_expected=1)
        looked_up: list[float] = []

        async def addresses(host: str, port: int, type: int) -> list[Any]:  # noqa: A002
            looked_up.append(loop.time())
            found = ["127.0.0.1", "127.0.0.9"] if len(looked_up) == 1 else ["127.0.0.1"]
            return [(2, type, 6, "", (one, port)) for one in found]

        async with booting("n1", dns, listen=f"127.0.0.1:{port}") as one:
            monkeypatch.setattr(loop, "getaddrinfo", addresses)
            assert (await one.take_place()).place.founds
        assert loop.time() - looked_up[1] >= 1.0, "the second answer was another one than the first"

    asyncio.run(scenario())


def test_places_of_other_nodes_are_what_is_written_down_and_what_a_name_leads_to_now() -> None:
    async def look_up(dns: str) -> set[str]:
        return await configured_places(BootSettings("data", peers=("n1:1", "n2:1"), join="n3:1", dns=dns))

    written = {"n1:1", "n2:1", "n3:1"}
    assert asyncio.run(look_up("")) == written
    assert asyncio.run(look_up("127.0.0.1:5681")) == written | {"127.0.0.1:5681"}
    assert asyncio.run(look_up("no-such-host.invalid:5681")) == written
    assert asyncio.run(look_up("no..name:5681")) == written


def test_a_node_with_another_secret_says_so_and_not_only_that_it_waits() -> None:
    """Its operator looks at its log, and the nodes that refuse it may be somebody else's."""

    class Heard(logging.Handler):
        def __init__(self) -> None:
            super().__init__(logging.INFO)
            self.texts: list[str] = []
            self.is_told = asyncio.Event()

        def emit(self, record: logging.LogRecord) -> None:
            self.texts.append(record.getMessage())
            if "which knows this cluster's secret" in self.texts[-1] and "no answer from" in self.texts[-1]:
                self.is_told.set()

    async def scenario() -> None:
        heard = Heard()
        log = logging.getLogger("leveret")
        before = log.level
        log.addHandler(heard)
        log.setLevel(logging.INFO)
        try:
            async with booting("n1", section()) as one:
                one.peers.answer_strangers(Welcoming(await one.take_place()))
                other = ClusterSection(secret="a secret of another cluster", join=one.peers.address)
                async with booting("n2", other) as two:
                    waiting = asyncio.ensure_future(two.take_place())
                    async with asyncio.timeout(TIMEOUT_S):
                        await heard.is_told.wait()
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)
        finally:
            log.removeHandler(heard)
            log.setLevel(before)

    asyncio.run(scenario())
