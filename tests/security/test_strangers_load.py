"""A small run of the load, so that it stays alive; its bars are for a machine that does nothing else."""

from __future__ import annotations

from tests.security.strangers_load import GROWTH_BYTES_MAX, Figures, run


def test_clients_go_on_beside_three_thousand_silent_connections() -> None:
    figures = run(connections=3_000, descriptors=1_024, seconds=2.0)
    assert figures.opened > 2_500, "refused ones are opened and closed"
    assert figures.grown_bytes <= GROWTH_BYTES_MAX
    assert figures.rate_during > 0
    for protocol, seconds in figures.login_s.items():
        assert seconds, f"nobody logged in over {protocol}: {figures.failures[:3]}"
    assert not [one for one in figures.failures if one.startswith("the node ended")]


def test_a_missed_bar_is_named() -> None:
    good = {"AMQP": [0.1], "HTTP": [0.1], "gRPC": [0.1]}
    assert Figures(rate_before=100, rate_during=50, login_s=good).missed() == []
    assert Figures(rate_before=100, rate_during=49, login_s=good).missed() == [
        "the publisher fell from 100 to 49 messages a second"
    ]
    assert Figures(login_s=good | {"HTTP": [1.1]}).missed() == ["a login over HTTP took 1.10 s"]
    assert Figures(login_s=good | {"gRPC": []}).missed() == ["nobody logged in over gRPC"]
    assert Figures(login_s=good, grown_bytes=65 << 20).missed() == ["the node's memory grew by 65 MiB"]
