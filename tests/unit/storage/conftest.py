"""What tests of several files here need."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator

import pytest

DESCRIPTORS = 400


@pytest.fixture
def all_descriptors() -> Iterator[Callable[[], None]]:
    """Call it, and this process can open nothing any more until the test has ended."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def take() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass

    yield take
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
