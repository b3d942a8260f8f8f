"""front/loopback.py: who is on this machine, over IPv4, IPv6, and IPv4 seen through an IPv6 listener."""

import pytest

from front.loopback import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "::", "0.0.0.0", "127.0.0.1.example", "localhost", ""]
)
def test_all_others(host: str) -> None:
    assert not is_loopback(host)
