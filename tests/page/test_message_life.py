"""The life of a message on the page: found by what is typed, or from a message that was browsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pika
import pytest

from tests.page.axe import grave_findings
from tests.page.hostile_node import parts
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
WORK, DEAD = "<b>lived/%2F", "died 'here'"
HOSTILE_ID = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def lived(hostile: RunningNode) -> RunningNode:
    """The first message of WORK has died, the second one, without an id, waits."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*hostile.amqp))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(DEAD, durable=True)
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    channel.queue_declare(WORK, durable=True, arguments=to_dead)
    for id_ in (HOSTILE_ID, None):
        channel.basic_publish("", WORK, b"a body", pika.BasicProperties(delivery_mode=2, message_id=id_))
    channel.basic_reject(channel.basic_get(WORK)[0].delivery_tag, requeue=False)
    while not channel.queue_declare(DEAD, passive=True).method.message_count:
        pass
    connection.close()
    return hostile


def test_a_message_is_found_by_its_id_and_followed_to_where_it_died(browser: PageBrowser, lived: RunningNode) -> None:
    browser.open(f"/queues/{parts('/', WORK)}?tab=life")
    browser.until("there is no form", lambda: bool(browser.all("#life-value")))
    browser.find("#life-value").send_keys(HOSTILE_ID)
    browser.button("Find", "main").click()
    browser.until("nothing was found", lambda: "What this stands on" in browser.text("main"))
    told = browser.text("main")
    for said in (
        "published",
        "waiting for a confirm",
        "rejected",
        "guest",
        f"{DEAD}, 0",
        HOSTILE_ID,
        "dead-lettered into it",
    ):
        assert said in told, said
    assert "a body" not in told
    assert browser.faults() == []


def test_a_browsed_message_leads_to_its_life(browser: PageBrowser, lived: RunningNode) -> None:
    browser.open(f"/queues/{parts('/', WORK)}?tab=messages")
    browser.until("nothing was browsed", lambda: bool(browser.all(".messages summary")))
    browser.find(".messages summary").click()
    browser.find(".messages .message a").click()
    browser.until("nothing was found", lambda: "What this stands on" in browser.text("main"))
    assert "sequence 1" in browser.text("main") and "in its queue, or out at a consumer" in browser.text("main")
    assert browser.faults() == []


def test_what_is_not_found_is_said_with_what_was_read(browser: PageBrowser, lived: RunningNode) -> None:
    browser.open(f"/queues/{parts('/', WORK)}?tab=life&by=message_id&value=none")
    browser.until("it was not said", lambda: "No such message" in browser.text("main"))
    assert "read" in browser.text("main table")
    assert browser.faults() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_life_can_be_read_by_everybody(browser: PageBrowser, lived: RunningNode, theme: str) -> None:
    browser.themed(theme)
    browser.open(f"/queues/{parts('/', WORK)}?tab=life&by=place&value=0")
    browser.until("nothing was found", lambda: "What this stands on" in browser.text("main"))
    assert grave_findings(browser) == []
