"""node/config.py: defaults, the example file, and refusals that name the key."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from node.config import (
    ArchiveSection,
    ClusterSection,
    Config,
    ConfigError,
    DiskSection,
    HistorySection,
    ListenSection,
    LogSection,
    MemorySection,
    NodeSection,
    check,
    cluster_secret,
    host_and_port,
    load,
    static_shovels,
)
from node.config_limits import archive_limits, kernel_settings

EXAMPLE = Path(__file__).parents[3] / "deploy" / "leveret.toml"


def test_the_example_file_says_exactly_the_defaults() -> None:
    assert load(EXAMPLE) == Config()


def test_the_example_file_names_every_option() -> None:
    written = {section: set(options) for section, options in tomllib.loads(EXAMPLE.read_text()).items()}
    assert written == {
        section: set(type(getattr(Config(), section)).__struct_fields__)
        for section in Config.__struct_fields__
        if section != "shovel"  # of which there is none by default
    }
    assert "# [[shovel]]" in EXAMPLE.read_text()


def test_the_nodes_of_the_compose_file_have_all_they_need_but_their_names() -> None:
    deploy = EXAMPLE.parent
    common = load(deploy / "cluster.toml")
    commands = re.findall(r"command: \[serve, (.*)\]", (deploy / "compose.yaml").read_text())
    assert len(commands) == 4
    for command in commands:
        options = dict(pairwise(part.strip('" ') for part in command.split(",")))
        cluster = msgspec.structs.replace(common.cluster, advertise=options["--advertise"], ram="--ram" in command)
        check(msgspec.structs.replace(common, cluster=cluster))
        assert options["--advertise"] == f"{options['--name']}.nodes:5681"
    assert common.cluster.peers == ("n1.nodes:5681", "n2.nodes:5681", "n3.nodes:5681")
    with pytest.raises(ConfigError, match="advertise"):
        check(common)


def test_an_unknown_key_is_refused_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text("[amqp]\nframe_maximum = 4096\n")
    with pytest.raises(ConfigError, match=r"frame_maximum.*\$\.amqp"):
        load(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[amqp]\nhearbeat_s = 5", r"hearbeat_s.*\$\.amqp.*did you mean heartbeat_s\?"),
        ("[memorie]\n", r"memorie.*did you mean memory\?"),
        ("[auth]\nxyz = 1", r"xyz.*\$\.auth.*there are password_hashing"),
        ("amqp.host.name = 1", r"host.*\$\.amqp.*there are channel_max, "),
    ],
)
def test_an_unknown_key_is_refused_with_those_that_there_are(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load(file)


def test_a_file_in_another_encoding_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_bytes('[node]\nname = "n\u00e4he"'.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"leveret\.toml is not UTF-8: "):
        load(file)


def numbers_of(config: Config) -> list[str]:
    return [
        f"{table}.{name}"
        for table in config.__struct_fields__
        for name in getattr(getattr(config, table), "__struct_fields__", ())
        if type(getattr(getattr(config, table), name)) in (int, float)
    ]


def with_number(key: str, number: float) -> Config:
    table, name = key.split(".")
    section = getattr(Config(), table)
    return msgspec.structs.replace(
        Config(), **{table: msgspec.structs.replace(section, **{name: type(getattr(section, name))(number)})}
    )


@pytest.mark.parametrize("key", numbers_of(Config()))
def test_no_number_may_be_below_0(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key} is -1(\.0)?: "):
        check(with_number(key, -1))


@pytest.mark.parametrize(
    ("key", "number", "said"),
    [
        ("amqp.message_bytes_max", 0, "give 1 or more"),
        ("memory.check_interval_ms", 0, "give 1 or more"),
        ("log.file_bytes_max", 0, "give 65536 or more"),
        ("amqp.channel_max", 100_000, "give 0 to 65535"),
        ("stream.advertised_port", 70_000, "give 0 to 65535"),
    ],
)
def test_a_number_with_which_nobody_would_be_served_is_refused_with_those_that_may_be(
    key: str, number: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^{key} is {number}: {said}$"):
        check(with_number(key, number))


@pytest.mark.parametrize(
    "key", ["amqp.handshake_timeout_ms", "amqp.close_timeout_ms", "stream.handshake_timeout_ms", "amqp.heartbeat_s"]
)
def test_0_is_no_limit_where_a_time_may_be_without_one(key: str) -> None:
    check(with_number(key, 0))


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")


def test_a_level_of_history_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"history\.level is 'all': off, basic, full"):
        check(Config(history=HistorySection(level="all")))


def test_an_archive_is_kept_only_for_hours_and_leaves_room() -> None:
    assert archive_limits(Config()) is None
    some = Config(archive=ArchiveSection(hours=2, bytes_max=5), disk=DiskSection(free_limit_bytes=3 << 30))
    assert archive_limits(some) == (2, 5, 6 << 30)
    assert archive_limits(Config(archive=ArchiveSection(hours=2))) == (2, 10 << 30, 1 << 30)
    assert archive_limits(Config(archive=ArchiveSection(hours=2, free_min_bytes=7))) == (2, 10 << 30, 7)
    with pytest.raises(ConfigError, match=r"archive\.bytes_max is -1"):
        check(Config(archive=ArchiveSection(bytes_max=-1)))


@pytest.mark.parametrize("rate", [-1, 1, 1_048_575])
def test_snapshots_are_sent_without_a_limit_or_fast_enough_to_come_to_an_end(rate: int) -> None:
    assert kernel_settings(Config()).log.snapshot_bytes_per_s == 110 << 20
    check(Config(log=LogSection(snapshot_bytes_per_s=0)))
    check(Config(log=LogSection(snapshot_bytes_per_s=1_048_576)))
    with pytest.raises(ConfigError, match=rf"log\.snapshot_bytes_per_s is {rate}: give 1048576 or more, or 0"):
        check(Config(log=LogSection(snapshot_bytes_per_s=rate)))


@pytest.mark.parametrize("given", [-1, 10_001])
def test_a_loop_polls_busily_for_a_short_time_or_not_at_all(given: int) -> None:
    check(Config(node=NodeSection(busy_poll_us=10_000)))
    with pytest.raises(ConfigError, match=rf"node\.busy_poll_us is {given}: give 0 to 10000"):
        check(Config(node=NodeSection(busy_poll_us=given)))


def test_a_value_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"memory\.high_watermark is 1\.5"):
        check(Config(memory=MemorySection(high_watermark=1.5)))


@pytest.mark.parametrize("address", ["5672", "localhost", ":5672", "host:port", "host:70000"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"listen\.amqp"):
        host_and_port(address, "listen.amqp")


def test_an_ipv6_address_keeps_its_colons() -> None:
    assert host_and_port("[::1]:5672", "listen.amqp") == ("::1", 5672)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (ClusterSection(secret="x" * 16, secret_file="f"), "both given"),
        (ClusterSection(peers=("a:1",)), r"cluster\.peers needs cluster\.secret"),
        (ClusterSection(secret="x" * 16, peers=("a:1",), dns="a:1", nodes_expected=3), "give one of them"),
        (ClusterSection(secret="x" * 16, dns="a:1"), r"nodes_expected is 0"),
        (ClusterSection(ram=True), "cannot be alone"),
        (ClusterSection(secret="x" * 16, peers=("a",)), r"cluster\.peers is 'a'"),
        (ClusterSection(tls_key="k"), "together"),
    ],
)
def test_a_cluster_that_cannot_work_is_refused(cluster: ClusterSection, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(Config(cluster=cluster))


def test_a_node_that_listens_everywhere_must_say_where_others_reach_it() -> None:
    config = Config(listen=ListenSection(peer="0.0.0.0:5681"), cluster=ClusterSection(secret="x" * 16))
    with pytest.raises(ConfigError, match=r"cluster\.advertise"):
        check(config)


def test_a_secret_from_a_file_is_taken_without_the_line_s_end(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s" * 20 + "\n")
    assert cluster_secret(Config(cluster=ClusterSection(secret_file=str(file)))) == b"s" * 20
    with pytest.raises(ConfigError, match="missing cannot be read"):
        cluster_secret(Config(cluster=ClusterSection(secret_file=str(tmp_path / "missing"))))


MOVE = {"name": "move", "src-uri": "amqp://u:hush@old", "src-queue": "q", "dest-uri": "amqp://u:hush@/"}


def test_shovels_are_read_with_the_keys_of_the_parameter(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("\n".join(["[[shovel]]", *(f'{key} = "{value}"' for key, value in MOVE.items())]))
    config = load(path)
    check(config)
    assert static_shovels(config) == {"move": {key: value for key, value in MOVE.items() if key != "name"}}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (({**MOVE, "name": ""},), "shovel 1 of the file has no name"),
        ((MOVE, {**MOVE, "name": 5}), "shovel 2 of the file has no name"),
        ((MOVE, MOVE), "shovel.name is 'move' twice"),
        (({**MOVE, "name": 256 * "n"},), "shovel 1 of the file: shovel name of 256 bytes is longer than 255"),
        (({**MOVE, "name": "a\nb"},), "shovel 1 of the file: shovel name 'a\\nb' contains a line break"),
        (({**MOVE, "name": "a\x1bb"},), "shovel 1 of the file: its name 'a\\x1bb' has control characters"),
        (({**MOVE, "src-exchange": "x"},), "shovel 'move': Cannot specify 'src-exchange' and 'src-queue'"),
        (({**MOVE, "src-ueue": "x"},), "shovel 'move': Unrecognised terms src-ueue in move"),
        (({**MOVE, "dest-uri": "amqp://u:hush@h:port"},), "shovel 'move': \"amqp://h:port\" not a valid URI"),
    ],
)
def test_a_shovel_that_cannot_run_is_refused_at_start(tables: tuple[dict[str, Any], ...], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check(Config(shovel=tables))
    assert str(refused.value).startswith(said)
    assert "hush" not in str(refused.value)
