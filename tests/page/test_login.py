"""Who comes in, who does not and why, and what happens when a login is not accepted any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import api_of
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page


@pytest.fixture
def stranger(hostile: RunningNode) -> Iterator[PageBrowser]:
    from tests.page.browser import page_browser

    with page_browser(hostile.http) as browser:
        yield browser


def refused(browser: PageBrowser, user: str, password: str) -> str:
    from selenium.webdriver.common.keys import Keys

    browser.driver.get(f"{browser.origin}/")
    browser.find("input[name=username]").send_keys(user)
    browser.find("input[name=password]").send_keys(password, Keys.ENTER)
    said: str = browser.until("nothing was said", lambda: browser.text(".login .error"))
    return said


def test_a_login_that_is_refused_says_so(stranger: PageBrowser, hostile: RunningNode) -> None:
    api_of(hostile).put("users/untagged", password="secret", tags="")
    for user, password in (("guest", "wrong"), ("none", "none"), ("untagged", "secret")):
        assert "Wrong user name or password" in refused(stranger, user, password)


def test_a_password_that_was_changed_leads_back_to_the_login(stranger: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    api.put("users/changed", password="before", tags="administrator")
    stranger.log_in("changed", "before")
    stranger.open("/users")
    api.put("users/changed", password="after", tags="administrator")
    stranger.until("it was not noticed", lambda: "has ended" in stranger.text(".login"))


def test_a_reload_does_not_ask_again(stranger: PageBrowser) -> None:
    stranger.log_in()
    stranger.driver.refresh()
    assert stranger.find("nav#menu")
    stranger.shown()


def test_who_logs_out_leaves_nothing_behind(stranger: PageBrowser) -> None:
    stranger.log_in()
    stranger.find("button[title='Log out']").click()
    stranger.find(".login")
    kept = stranger.driver.execute_script("return JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert kept == '[{},{},""]'
    stranger.driver.refresh()
    stranger.find(".login")
    assert not stranger.all("nav#menu")


def test_a_user_sees_only_what_its_tags_allow(stranger: PageBrowser, hostile: RunningNode) -> None:
    api_of(hostile).put("users/manager", password="secret", tags="management")
    stranger.log_in("manager", "secret")
    for hidden in ("Users", "Nodes", "Limits"):
        assert hidden not in stranger.text("nav#menu").split("\n")
    stranger.open("/users")
    assert "no access" in stranger.text("main")
    for view in ("overview", "queues", "connections", "alarms", "vhosts", "policies"):
        stranger.open(f"/{view}")
        assert stranger.all("main h1"), view
