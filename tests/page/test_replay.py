"""Messages that were consumed are published again through the page: planned, counted by a dry run, then begun."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pika
import pytest

from tests.page.axe import grave_findings
from tests.page.hostile_node import NodeApi, api_of, parts
from tests.page.test_dialogs import closed, fill, send
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
CONSUMED, AGAIN = "consumed <i>by</i>/%2F", "<b>again</b>"
MESSAGES = 4
LOGGED_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def consumed(hostile: RunningNode) -> RunningNode:
    """Of CONSUMED, MESSAGES were acknowledged and one was rejected, and the log has it all."""
    with pika.BlockingConnection(pika.ConnectionParameters(*hostile.amqp)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in (CONSUMED, AGAIN):
            channel.queue_declare(name, durable=True)
        for _ in range(MESSAGES + 1):
            channel.basic_publish("", CONSUMED, b"body", pika.BasicProperties(delivery_mode=2))
        for _ in range(MESSAGES):
            channel.basic_ack(channel.basic_get(CONSUMED)[0].delivery_tag)
        channel.basic_reject(channel.basic_get(CONSUMED)[0].delivery_tag, requeue=False)
    until = time.monotonic() + LOGGED_WITHIN_S
    while (found := dry_run(api_of(hostile)))["messages"] + sum(found["skipped"].values()) < MESSAGES + 1:
        assert time.monotonic() < until, f"the log has not all of it: {found}"
    return hostile


def dry_run(api: NodeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.post(
        f"leveret/queues/{parts('/', CONSUMED)}/replay", exchange="amq.default", dry_run=True
    )
    return found


def test_consumed_messages_are_counted_first_and_published_again_then(
    browser: PageBrowser, consumed: RunningNode
) -> None:
    api = api_of(consumed)
    browser.open(f"/queues/{parts('/', CONSUMED)}?tab=replay")
    browser.button("Plan a replay").click()
    assert grave_findings(browser) == []
    fill(browser, exchange="amq.default", key=AGAIN, limit=str(MESSAGES - 1))
    send(browser, "Dry run")
    closed(browser)
    again = browser.button(f"Publish {MESSAGES - 1} messages again")
    told = browser.text("main")
    for said in (f"Found in the log\n{MESSAGES} messages", "1 rejected", AGAIN, CONSUMED, f"At most\n{MESSAGES - 1}"):
        assert said in told, said
    assert grave_findings(browser) == []
    assert api.call("GET", f"queues/{parts('/', AGAIN)}")["messages"] == 0, "a dry run publishes nothing"
    again.click()
    send(browser, "Publish again")
    closed(browser)
    browser.until("it did not end", lambda: "done" in browser.text("main") and "3 of 3" in browser.text("main table"))
    assert api.call("GET", f"queues/{parts('/', AGAIN)}")["messages"] == MESSAGES - 1
    assert api.call("GET", f"queues/{parts('/', CONSUMED)}")["messages"] == 0
    assert grave_findings(browser) == []
    assert browser.faults() == []


def test_a_plan_is_changed_with_what_it_had_and_discarded(browser: PageBrowser, consumed: RunningNode) -> None:
    browser.open(f"/queues/{parts('/', CONSUMED)}?tab=replay")
    browser.button("Plan a replay").click()
    fill(browser, exchange="amq.default", ends="purged")
    send(browser, "Dry run")
    closed(browser)
    assert not browser.button("Publish 0 messages again").is_enabled()
    browser.button("Plan a replay").click()
    assert browser.find("dialog [name=ends]").get_property("value") == "purged"
    fill(browser, ends="rejected")
    send(browser, "Dry run")
    closed(browser)
    assert browser.button("Publish 1 message again").is_enabled()
    browser.button("Discard").click()
    browser.until("it is still there", lambda: "Dry run" not in browser.text("main .panel-head"))
    assert browser.faults() == []


def test_a_plan_that_is_refused_says_why_and_keeps_what_was_typed(browser: PageBrowser, consumed: RunningNode) -> None:
    browser.open(f"/queues/{parts('/', CONSUMED)}?tab=replay")
    browser.button("Plan a replay").click()
    fill(browser, exchange="<u>no such</u>", after="5/31/0")
    send(browser, "Dry run")
    browser.until("no reason was given", lambda: "one number" in browser.text("dialog .error"))
    assert browser.find("dialog [name=exchange]").get_property("value") == "<u>no such</u>"
    browser.button("Cancel", "dialog").click()
    browser.faults()  # browsers note each refusal in the console
