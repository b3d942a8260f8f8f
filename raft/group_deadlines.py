"""When each group's core wants to hear of the time: the earliest of thousands is found at once."""

from __future__ import annotations

import heapq

from raft.driver import Driver

DEADLINES_MAX = 32  # in one go


class GroupDeadlines:
    """The heap holds one entry for a driver that counts: a deadline that moved on is seen when the old one is due."""

    __slots__ = ("_pushed", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Driver]] = []  # the earliest first
        self._pushed = 0  # keeps equal deadlines in the order in which they came

    def watch(self, driver: Driver) -> None:
        deadline = driver.core.deadline
        if deadline is not None and (driver.heap_deadline is None or deadline < driver.heap_deadline):
            driver.heap_deadline = deadline
            self._pushed += 1
            heapq.heappush(self.heap, (deadline, self._pushed, driver))

    def forget(self, driver: Driver) -> None:
        """It is no more: its entry does not count."""
        driver.heap_deadline = None

    def take_due(self, now: float) -> list[Driver]:
        """Some of those whose deadline has come. What others have sent meanwhile is read before the rest: when a node is lost,
        or all start at once, most groups then hear of a leader before they would stand for election themselves."""
        due: list[Driver] = []
        while self.heap and self.heap[0][0] <= now and len(due) < DEADLINES_MAX:
            at, _, driver = heapq.heappop(self.heap)
            if driver.heap_deadline == at:
                driver.heap_deadline = None
                due.append(driver)
        return due
