"""node/config.py: defaults, the example file, and refusals that name the key."""

from pathlib import Path

import pytest

from node.config import Config, ConfigError, MemorySection, check, host_and_port, load

EXAMPLE = Path(__file__).parents[3] / "deploy" / "leveret.toml"


def test_the_example_file_says_exactly_the_defaults() -> None:
    assert load(EXAMPLE) == Config()


def test_the_example_file_names_every_option() -> None:
    text = EXAMPLE.read_text()
    for section in Config.__struct_fields__:
        assert f"[{section}]" in text
        for option in type(getattr(Config(), section)).__struct_fields__:
            assert f"\n{option} = " in text, f"{section}.{option} is not in the example"


def test_an_unknown_key_is_refused_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text("[amqp]\nframe_maximum = 4096\n")
    with pytest.raises(ConfigError, match=r"frame_maximum.*\$\.amqp"):
        load(file)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")


def test_a_value_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"memory\.high_watermark is 1\.5"):
        check(Config(memory=MemorySection(high_watermark=1.5)))


@pytest.mark.parametrize("address", ["5672", "localhost", ":5672", "host:port", "host:70000"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"listen\.amqp"):
        host_and_port(address, "listen.amqp")


def test_an_ipv6_address_keeps_its_colons() -> None:
    assert host_and_port("[::1]:5672", "listen.amqp") == ("::1", 5672)
