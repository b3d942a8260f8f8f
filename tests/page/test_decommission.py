"""A node leaves its cluster through the page: its plan is shown, what stands in the way, and how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import NodeApi, api_of, parts
from tests.page.test_dialogs import closed, fill, send
from tests.running_cluster import running_cluster
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
HELD = "held <i>here</i>"


def test_the_plan_of_a_node_says_what_stands_in_the_way(browser: PageBrowser, hostile: RunningNode) -> None:
    (node,) = api_of(hostile).call("GET", "nodes")
    browser.open(f"/nodes/{parts(node['name'])}?tab=decommission")
    assert "alone in its cluster" in browser.text("main .attention")
    assert not browser.button(f"Decommission {node['name']}").is_enabled()
    assert browser.faults() == []


def test_a_node_is_decommissioned_and_shown_on_its_way(tmp_path: Path) -> None:
    from tests.page.browser import page_browser

    with running_cluster(tmp_path) as cluster:
        address, leaving = cluster.http(1), "n3"
        api = NodeApi("http://{}:{}".format(*address))
        api.put(f"queues/{parts('/', HELD)}", durable=True, arguments={"x-queue-type": "quorum"})
        with page_browser(address) as browser:
            browser.log_in()
            browser.open("/cluster")
            browser.find(f"a[href='#/nodes/{leaving}?tab=decommission']").click()
            browser.until("no plan was shown", lambda: HELD in browser.text("main table"))
            browser.button(f"Decommission {leaving}").click()
            fill(browser, typed="n1")
            send(browser, "Decommission")
            browser.until("it took the wrong name", lambda: "does not match" in browser.text("dialog .error"))
            fill(browser, typed=leaving)
            send(browser, "Decommission")
            closed(browser)
            browser.until(
                "it did not leave",
                lambda: leaving not in {one["name"] for one in api.call("GET", "leveret/cluster")["nodes"]},
                within_s=60,
            )
