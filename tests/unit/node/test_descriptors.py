"""node/watching/descriptors.py: ceilings that fit into the descriptors of the process, with a reserve for storage."""

from __future__ import annotations

import logging
import subprocess
import sys
from operator import mul

import pytest

from node.config import LimitsSection
from node.watching.descriptors import (
    DESCRIPTORS_PER_GRPC_CONNECTION,
    DESCRIPTORS_PER_STREAM_CONNECTION,
    RESERVE_MAX,
    RESERVE_SHARE,
    Ceilings,
    ceilings,
    log_ceilings,
)

LIMITS = LimitsSection()


def test_with_enough_descriptors_the_configuration_counts() -> None:
    assert ceilings(LIMITS, 65_536) == Ceilings(16_000, 1_000, 1_000, 2_000, 1_000, 500, 500)


@pytest.mark.parametrize("descriptors", [512, 1_024, 4_096, 20_000])
@pytest.mark.parametrize("limits", [LIMITS, LimitsSection(connections=0, unauthenticated_connections=0)])
def test_all_connections_together_leave_the_reserve(descriptors: int, limits: LimitsSection) -> None:
    found = ceilings(limits, descriptors)
    reserve = min(RESERVE_MAX, descriptors // RESERVE_SHARE)
    descriptors_each = 1, DESCRIPTORS_PER_STREAM_CONNECTION, 1, DESCRIPTORS_PER_GRPC_CONNECTION
    counts = found.amqp, found.stream, found.http, found.grpc
    assert sum(map(mul, counts, descriptors_each)) <= descriptors - reserve
    assert found.unauthenticated <= found.amqp // 4, "strangers leave room for clients"
    if limits.unauthenticated_connections:
        assert found.unauthenticated_per_source <= found.unauthenticated // 2, "one source leaves room for others"
    assert found.http_per_source <= found.http // 2
    assert (
        min(found.amqp, found.stream, found.http, found.grpc, found.unauthenticated, found.unauthenticated_per_source)
        > 0
    )


def test_users_that_reconnect_at_once_fit_into_the_share_of_one_address() -> None:
    assert ceilings(LIMITS, 4_096).unauthenticated_per_source >= 240


def test_ceilings_that_were_lowered_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    log_ceilings(LIMITS, 65_536, ceilings(LIMITS, 65_536), logging.getLogger())
    assert not caplog.records
    log_ceilings(LIMITS, 4_096, ceilings(LIMITS, 4_096), logging.getLogger())
    assert "may open 4096 files" in caplog.text and "LimitNOFILE" in caplog.text


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    script = (
        "import resource; from node.watching.descriptors import raise_limit, descriptor_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512)); raise_limit(); print(descriptor_limit())"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "512\n"
