"""What operators do on the page when something went wrong: redrive, cancelling, what happened lately, who may do what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pika
import pytest

from tests.page.hostile_node import NAMES, api_of, parts
from tests.page.test_dialogs import closed, fill, send
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
DEAD, WORK = "dead <letters>", "work/%2F"


def kill(node: RunningNode, count: int) -> None:
    """So many messages of WORK are rejected into DEAD."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*node.amqp))
    channel = connection.channel()
    channel.queue_declare(DEAD, durable=True)
    channel.queue_declare(
        WORK, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    )
    for number in range(count):
        channel.basic_publish("", WORK, b"%d" % number)
    for _ in range(count):
        while (method := channel.basic_get(WORK)[0]) is None:
            pass
        channel.basic_reject(method.delivery_tag, requeue=False)
    connection.close()


def test_dead_letters_are_counted_and_moved_back(browser: PageBrowser, hostile: RunningNode) -> None:
    kill(hostile, 7)
    api = api_of(hostile)
    browser.open(f"/queues/{parts('/', DEAD)}?tab=causes")
    browser.until("no cause was shown", lambda: WORK in browser.text("main table"))
    browser.button("Redrive", "main table").click()
    assert browser.find("dialog [name=died_in]").get_property("value") == WORK
    browser.button("Dry run", "dialog").click()
    browser.until("nothing was counted", lambda: "7 messages would move" in browser.text("dialog"))
    assert api.call("GET", f"queues/{parts('/', DEAD)}")["messages"] == 7
    fill(browser, limit="3")
    send(browser, "Redrive")
    closed(browser)
    browser.until("it did not end", lambda: "done" in browser.text("main") and "3 of 3" in browser.text("main"))
    assert api.call("GET", f"queues/{parts('/', WORK)}")["messages"] == 3
    assert browser.faults() == []


def test_a_shovel_is_added_shown_restarted_and_deleted(browser: PageBrowser, hostile: RunningNode) -> None:
    api, name, uri = api_of(hostile), "moves <b>on</b>", "amqp://guest:guest@"
    api.put(f"queues/{parts('/', 'shovelled')}", durable=True)
    body = {"routing_key": "shovelled", "properties": {}, "payload": "x", "payload_encoding": "string"}
    for _ in range(3):
        api.call("POST", f"exchanges/{parts('/', 'amq.default')}/publish", body)
    browser.open("/links?name=moves")
    browser.button("Add").click()
    fill(browser, **{"vhost": "/", "name": name, "src-uri": uri, "src-name": "shovelled", "dest-uri": "amqp://nobody"})
    fill(browser, **{"dest-name": "moved here", "more": "src-prefetch-count = many"})
    send(browser, "Add")
    assert "src-prefetch-count should be a number" in browser.until("no reason", lambda: browser.text("dialog .error"))
    browser.faults()  # browsers note each refusal in the console
    fill(browser, **{"dest-uri": uri, "more": "src-prefetch-count = 100"})
    send(browser, "Add")
    closed(browser)

    def shown(*texts: str) -> bool:
        return all(text in browser.text("main table") for text in (name, *texts))

    browser.until("it does not run", lambda: shown("running", "queue shovelled", "queue moved here"))
    browser.until("nothing was moved", lambda: api.call("GET", f"shovels/vhost/{parts('/', name)}")["forwarded"] == 3)
    browser.button("Restart", "main table").click()
    send(browser, "Restart")
    closed(browser)
    browser.until("it did not", lambda: api.call("GET", f"shovels/vhost/{parts('/', name)}")["restarts"] == 1)
    browser.button("Delete", "main table").click()
    send(browser, "Delete")
    closed(browser)
    browser.until("it is still there", lambda: name not in browser.text("main"))
    assert browser.faults() == []


def test_a_consumer_is_cancelled_and_its_client_is_told(browser: PageBrowser, hostile: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*hostile.amqp, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("listened to")
    told: list[str] = []
    channel.basic_consume("listened to", lambda *_: None, consumer_tag=NAMES[0])
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    browser.open(f"/queues/{parts('/', 'listened to')}?tab=consumers")
    browser.button("Cancel", "main table").click()
    send(browser, "Cancel consumer")
    closed(browser)
    browser.until("it is still there", lambda: "No consumers" in browser.text("main"))
    connection.process_data_events(1)
    assert told == [NAMES[0]]
    connection.close()
    assert browser.faults() == []


def test_events_come_as_they_happen_and_the_log_and_changes_are_shown(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api = api_of(hostile)
    browser.open("/activity?kind=queue")
    api.put(f"queues/{parts('/', 'just <i>now</i>')}", durable=True)
    browser.until("no event came", lambda: "just <i>now</i>" in browser.text("main table"))
    browser.open("/activity?tab=audit&contains=made-for-audit")
    api.put("vhosts/made-for-audit", description="x")
    browser.until("no change was shown", lambda: "made-for-audit" in browser.text("main table"))
    assert "guest" in browser.text("main table")
    browser.open("/activity?tab=log")
    browser.until("no line was shown", lambda: "leveret" in browser.text("main table"))
    assert browser.faults() == []


def test_what_a_user_may_do_with_a_name_is_said(browser: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    api.put("users/asked-about", password="secret", tags="")
    api.put(f"permissions/{parts('/', 'asked-about')}", configure="^$", write="^orders", read=".*")
    browser.open("/users/asked-about")
    browser.button("Check access").click()
    fill(browser, vhost="/", of="orders.new")
    send(browser, "Check")
    said = browser.until("nothing was said", lambda: browser.text("dialog .done"))
    assert "configure (declare and delete): no" in said and "write (publish to it, bind it as a queue): yes" in said
    browser.button("Close", "dialog").click()
    assert browser.faults() == []


def test_leaders_are_spread_and_shown_before(browser: PageBrowser, hostile: RunningNode) -> None:
    browser.open("/cluster")
    browser.button("Rebalance leaders").click()
    fill(browser, by="bytes")
    send(browser, "Go")
    browser.until("no move was counted", lambda: browser.text("dialog .done") == "No leader would move.")
    browser.find("dialog [name=dry]").click()
    send(browser, "Go")
    browser.until("it has not begun", lambda: browser.text("dialog .done") == "Rebalancing has started.")
    browser.button("Close", "dialog").click()
    closed(browser)
    assert browser.faults() == []


def test_members_are_moved_shown_before_and_how_far_that_is_is_told(browser: PageBrowser, hostile: RunningNode) -> None:
    browser.open("/cluster")
    browser.button("Move members").click()
    fill(browser, by="bytes")
    send(browser, "Go")
    browser.until("no move was counted", lambda: browser.text("dialog .done") == "No member would move.")
    browser.find("dialog [name=dry]").click()
    send(browser, "Go")
    browser.until("it has not begun", lambda: browser.text("dialog .done").startswith("It has begun."))
    browser.button("Close", "dialog").click()
    closed(browser)
    browser.until("it is not over", lambda: re.search(r"\ndone\s+0 of 0 moves made\s+By bytes", browser.text("main")))
    assert browser.faults() == []


def test_tracing_of_a_vhost_is_switched_on_and_off(browser: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    api.put("vhosts/watched", description="kept", tags="a,b")
    browser.open("/vhosts/watched")
    for button, confirmed, tracing in (("Trace messages", "Trace", True), ("Stop tracing", "Stop tracing", False)):
        browser.button(button).click()
        send(browser, confirmed)
        closed(browser)
        found = api.call("GET", "vhosts/watched")
        assert (found["tracing"], found["description"], found["tags"]) == (tracing, "kept", ["a", "b"])
    assert browser.faults() == []
