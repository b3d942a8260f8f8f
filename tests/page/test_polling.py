"""What the page does when there is much to show, when nobody looks, and when its node goes away."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import api_of
from tests.ports import free_base_port
from tests.running_node import RunningNode, running_node, start_node

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
QUEUES = 10_000
FIRST_ROWS_S = 1.0
TOLD_WITHIN_S = 10.0
TRIES = 3
FIRST_ROWS = """
const [route, done] = arguments, begun = performance.now();
location.hash = route;
const isThere = () => document.querySelector("main tbody tr")?.textContent.includes("queue-") ?? false;
const look = () => isThere() ? done(performance.now() - begun) : requestAnimationFrame(look);
requestAnimationFrame(() => requestAnimationFrame(look));
"""
HIDE = """
Object.defineProperty(document, "hidden", {configurable: true, get: () => arguments[0]});
document.dispatchEvent(new Event("visibilitychange"));
"""
REQUESTS = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/')).length"
WAIT = "setTimeout(arguments[1], arguments[0])"
TWO_POLLS_MS = 11_000


def test_ten_thousand_queues_show_their_first_rows_at_once() -> None:
    from tests.page.browser import page_browser

    with running_node() as node:
        declare_many(node)
        with page_browser(node.http) as browser:
            browser.log_in()
            times = [first_rows_s(browser, query) for query in ("", "?name=77", "?page=100") for _ in range(TRIES)]
            print(f"first rows of {QUEUES} queues after", *[f"{one:.2f}" for one in times], "s")
            assert min(times[:TRIES]) < FIRST_ROWS_S
            assert max(min(times[at : at + TRIES]) for at in range(0, len(times), TRIES)) < FIRST_ROWS_S
            browser.open("/queues?sort=messages&desc=1")
            assert "of 10,000" in browser.text(".pager")


def declare_many(node: RunningNode) -> None:
    queues = [
        {"vhost": "/", "name": f"queue-{number:05}", "durable": True, "auto_delete": False, "arguments": {}}
        for number in range(QUEUES)
    ]
    api_of(node).call("POST", "definitions", {"queues": queues})


def first_rows_s(browser: PageBrowser, query: str) -> float:
    browser.open("/definitions")
    milliseconds: float = browser.driver.execute_async_script(FIRST_ROWS, f"#/queues{query}")
    return milliseconds / 1000


def test_nobody_is_asked_while_the_page_is_hidden(browser: PageBrowser) -> None:
    browser.open("/queues")
    browser.driver.execute_script(HIDE, True)
    browser.driver.execute_script("performance.clearResourceTimings()")
    browser.driver.set_script_timeout(60)
    browser.driver.execute_async_script(WAIT, TWO_POLLS_MS)
    assert browser.driver.execute_script(REQUESTS) == 0
    browser.driver.execute_script(HIDE, False)
    browser.until("it did not go on", lambda: browser.driver.execute_script(REQUESTS) > 0)


def test_a_node_that_is_killed_is_told_and_the_page_comes_back_by_itself(tmp_path: Path) -> None:
    from tests.page.browser import page_browser

    http = ("127.0.0.1", free_base_port(1))
    options = ("--http", f"{http[0]}:{http[1]}")
    node = start_node(tmp_path / "data", *options)
    try:
        with page_browser(http) as browser:
            browser.log_in()
            browser.open("/queues")
            node.kill()
            assert told_after_s(browser) < TOLD_WITHIN_S
            assert "Queues and streams" in browser.text("h1"), "what was there stays"
            node = start_node(tmp_path / "data", *options)
            browser.until("it did not come back", lambda: not browser.all(".notice.bad"))
    finally:
        node.kill()


def test_a_node_that_hangs_is_told(tmp_path: Path) -> None:
    from tests.page.browser import page_browser

    node = start_node(tmp_path / "data")
    try:
        with page_browser(node.http) as browser:
            browser.log_in()
            browser.open("/queues")
            node.process.send_signal(signal.SIGSTOP)
            assert told_after_s(browser) < TOLD_WITHIN_S
            node.process.send_signal(signal.SIGCONT)
            browser.until("it did not come back", lambda: not browser.all(".notice.bad"))
    finally:
        node.process.send_signal(signal.SIGCONT)
        node.kill()


def told_after_s(browser: PageBrowser) -> float:
    begun = time.monotonic()
    browser.find(".notice.bad")
    return time.monotonic() - begun
