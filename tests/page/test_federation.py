"""Links to other brokers on the page: upstreams are added and deleted, links are shown with their faults, and restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import api_of, parts
from tests.page.test_dialogs import closed, fill, send
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
UPSTREAM = "up <b>there</b>"


def test_an_upstream_is_added_its_link_shown_and_restarted_and_both_deleted(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api = api_of(hostile)
    api.put(f"queues/{parts('/', 'federated')}", durable=True)
    browser.open("/federation?tab=upstreams&name=up <b>")
    browser.button("Add upstream").click()
    uri = f"amqp://guest:guest@{hostile.amqp[0]}:{hostile.amqp[1]}"
    fill(browser, vhost="/", name=UPSTREAM, uri="nonsense", queue="its source")
    send(browser, "Add")
    assert "not a valid URI" in browser.until("no reason", lambda: browser.text("dialog .error"))
    browser.faults()  # browsers note each refusal in the console
    fill(browser, **{"uri": uri, "prefetch-count": "7", "more": "queue-type = quorum"})
    send(browser, "Add")
    closed(browser)
    browser.until("it is not listed", lambda: UPSTREAM in browser.text("main table"))
    assert "guest" not in browser.text("main table"), "no passwords are shown"
    value = api.call("GET", f"parameters/federation-upstream/{parts('/', UPSTREAM)}")["value"]
    assert value == {
        "uri": uri,
        "ack-mode": "on-confirm",
        "queue": "its source",
        "prefetch-count": 7,
        "queue-type": "quorum",
    }

    policy = {"pattern": "^federated$", "apply-to": "queues", "definition": {"federation-upstream": UPSTREAM}}
    api.put(f"policies/{parts('/', 'of the link')}", **policy)
    browser.open("/federation?name=federated")
    browser.until(
        "no link runs", lambda: "running" in browser.text("main table") and UPSTREAM in browser.text("main table")
    )
    before = restarts_of(api.call("GET", "federation-links"))
    browser.button("Restart", "main table").click()
    send(browser, "Restart")
    closed(browser)
    browser.until("it did not", lambda: restarts_of(api.call("GET", "federation-links")) > before)

    browser.open("/federation?tab=upstreams&name=up <b>")
    browser.button("Delete", "main table").click()
    fill(browser, typed=UPSTREAM)
    send(browser, "Delete")
    closed(browser)
    browser.until("it is still there", lambda: UPSTREAM not in browser.text("main"))
    api.call("DELETE", f"policies/{parts('/', 'of the link')}")
    assert browser.faults() == []


def restarts_of(links: list[dict[str, int | str]]) -> int:
    return sum(int(one["restarts"]) for one in links if one.get("queue") == "federated")


def test_a_queue_that_a_policy_cannot_have_mirrored_says_so(browser: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    api.put(f"policies/{parts('/', 'mirrored')}", pattern="^mirrored", definition={"ha-mode": "all"})
    api.put(f"queues/{parts('/', 'mirrored')}", durable=True)
    api.put(f"queues/{parts('/', 'mirrored not')}", durable=True, arguments={"x-max-priority": 5})
    browser.open(f"/queues/{parts('/', 'mirrored')}")
    assert "as a quorum queue" in browser.text("main .notice.good")
    browser.open(f"/queues/{parts('/', 'mirrored not')}")
    assert "mirroring wanted, not active" in browser.text("main .notice.warn")
    browser.open("/queues?name=mirrored")
    assert [one.text for one in browser.all("main table .badge.warn")] == ["not mirrored"]
    assert browser.faults() == []
