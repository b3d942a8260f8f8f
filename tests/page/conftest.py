"""What the tests of this folder share: a node with hostile names, and a browser that is logged in to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import api_of, connected_clients, declare_everything
from tests.running_node import RunningNode, running_node

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser


@pytest.fixture(scope="session")
def hostile() -> Iterator[RunningNode]:
    with running_node() as node:
        declare_everything(api_of(node))
        with connected_clients(node):
            yield node


@pytest.fixture(scope="session")
def logged_in(hostile: RunningNode) -> Iterator[PageBrowser]:
    from tests.page.browser import page_browser

    with page_browser(hostile.http) as browser:
        browser.log_in()
        yield browser


@pytest.fixture
def browser(logged_in: PageBrowser) -> PageBrowser:
    """At the usual width, in the light theme, with nothing said yet."""
    logged_in.sized(1280)
    logged_in.themed("light")
    logged_in.open("/")
    logged_in.faults()
    return logged_in
