"""Messages that wait in an exchange or for a queue are listed, searched, gone through by pages, and cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import api_of, declare_delayed, parts, publish_delayed
from tests.page.test_dialogs import closed, send
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
LATER = "later <u>on</u>"
PAGE = 500


def test_delayed_messages_are_listed_searched_and_cancelled(browser: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    declare_delayed(api, LATER)
    publish_delayed(api, LATER, "soon", 600_000)
    publish_delayed(api, LATER, "far off", 864_000_000)
    browser.open(f"/exchanges/{parts('/', LATER)}?tab=delayed")
    browser.until("they are not listed", lambda: len(browser.all(".messages > li")) == 3)
    assert [one.text for one in browser.all(".messages .preview")] == ["soon", LATER, "far off"]
    browser.find("#delayed-filter").send_keys("far")
    browser.until("it is not filtered", lambda: len(browser.all(".messages > li")) == 1)
    browser.find(".messages summary").click()
    browser.button("Cancel this message", ".messages").click()
    send(browser, "Cancel message")
    closed(browser)
    waiting = f"leveret/exchanges/{parts('/', LATER)}/delayed"
    browser.until("it still waits", lambda: [one["payload"] for one in api.call("GET", waiting)] == ["soon", LATER])
    assert browser.faults() == []


def test_more_delayed_messages_than_one_answer_has_are_gone_through_by_pages(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api, name = api_of(hostile), "many later"
    declare_delayed(api, name)
    for number in range(PAGE + 1):
        publish_delayed(api, name, f"n{number}", 3_600_000)
    browser.open(f"/exchanges/{parts('/', name)}?tab=delayed")
    browser.find("#delayed-order option[value=published]").click()
    browser.button("Next").click()
    browser.until("no second page", lambda: len(browser.all(".messages > li")) == 2)
    assert [one.text for one in browser.all(".messages .preview")] == [f"n{PAGE - 1}", f"n{PAGE}"]
    browser.button("Previous").click()
    browser.until("no first page", lambda: len(browser.all(".messages > li")) == PAGE)
    assert browser.faults() == []


def test_messages_that_wait_for_a_queue_are_listed_and_cancelled_on_its_page(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api, name = api_of(hostile), "slow <u>queue</u>"
    api.put(
        f"queues/{parts('/', name)}", durable=True, arguments={"x-queue-type": "quorum", "x-delayed-messages": True}
    )
    for delay_ms, text in ((3_600_000, "kept"), (600_000, "cancelled")):
        properties = {"headers": {"x-delay": delay_ms}}
        body = {"routing_key": name, "properties": properties, "payload": text, "payload_encoding": "string"}
        api.call("POST", f"exchanges/{parts('/', 'amq.default')}/publish", body)
    browser.open(f"/queues/{parts('/', name)}?tab=delayed")
    browser.until("they are not listed", lambda: len(browser.all(".messages > li")) == 2)
    browser.find(".messages summary").click()
    browser.button("Cancel this message", ".messages").click()
    send(browser, "Cancel message")
    closed(browser)
    waiting = f"leveret/queues/{parts('/', name)}/delayed"
    browser.until("it still waits", lambda: [one["payload"] for one in api.call("GET", waiting)] == ["kept"])
    assert browser.faults() == []
