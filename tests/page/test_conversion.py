"""A classic queue becomes a quorum queue through the page: the plan, the typed name, how far it is, and a cancelled one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.page.axe import grave_findings
from tests.page.hostile_node import api_of, parts, publish
from tests.page.test_dialogs import closed, fill, send
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
CLASSIC, FLEETING = "<b>classic</b>/%2F & 'old'", "<i>not</i> durable"
MESSAGES = 3


@pytest.fixture
def open_transaction(hostile: RunningNode) -> Iterator[BlockingChannel]:
    """Of CLASSIC with MESSAGES, one of which is settled in a transaction: while that is open no conversion can end."""
    api = api_of(hostile)
    api.put(f"queues/{parts('/', CLASSIC)}", durable=True)
    for _ in range(MESSAGES):
        publish(api, CLASSIC)
    connection = pika.BlockingConnection(pika.ConnectionParameters(*hostile.amqp, heartbeat=0))
    channel = connection.channel()
    channel.tx_select()
    channel.basic_ack(channel.basic_get(CLASSIC)[0].delivery_tag)
    yield channel
    connection.close()


def test_a_queue_is_converted_after_its_plan_was_shown_and_its_name_typed(
    browser: PageBrowser, hostile: RunningNode, open_transaction: BlockingChannel
) -> None:
    api = api_of(hostile)
    ask = f"leveret/queues/{parts('/', CLASSIC)}/conversion"

    def convert() -> None:
        browser.button("Convert to quorum").click()
        browser.until("no plan was shown", lambda: f"{MESSAGES} messages would be copied" in browser.text("dialog"))
        assert "x-quorum-initial-group-size" in browser.text("dialog")
        fill(browser, typed=CLASSIC)
        send(browser, "Convert")
        closed(browser)
        browser.until("no progress", lambda: f"of {MESSAGES} messages copied" in browser.text("main"))

    browser.open(f"/queues/{parts('/', CLASSIC)}")
    browser.button("Convert to quorum").click()
    assert grave_findings(browser) == []
    fill(browser, typed="classic")
    send(browser, "Convert")
    browser.until("it took the wrong name", lambda: "does not match" in browser.text("dialog .error"))
    assert api.call("GET", ask)["state"] == "classic"
    browser.button("Cancel", "dialog").click()
    convert()
    assert grave_findings(browser) == []
    browser.button("Cancel conversion", "main").click()
    send(browser, "Cancel conversion")
    closed(browser)
    browser.until("it goes on", lambda: api.call("GET", ask)["state"] == "classic")
    browser.button("Convert to quorum")  # is offered again
    convert()
    open_transaction.tx_commit()
    browser.until("it is none", lambda: api.call("GET", ask)["state"] == "quorum")
    browser.until(
        "it is not shown", lambda: "Members" in browser.text(".tabs") and "copied" not in browser.text("main")
    )
    assert api.call("GET", f"queues/{parts('/', CLASSIC)}")["type"] == "quorum"
    assert browser.faults() == []


def test_a_queue_that_cannot_be_converted_says_why(browser: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    api.put(f"queues/{parts('/', FLEETING)}", durable=False)
    browser.open(f"/queues/{parts('/', FLEETING)}")
    browser.button("Convert to quorum").click()
    browser.until("no reason was given", lambda: "it is not durable" in browser.text("dialog .notice"))
    browser.button("Cancel", "dialog").click()
    browser.faults()  # browsers note each refusal in the console
