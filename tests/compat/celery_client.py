"""The client of celery_check: sends tasks, awaits their results and prints what it saw as JSON.

It runs in the virtual environment of the check, beside a worker that was started before it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from celery import chord, group
from celery_tasks import add, app, fail, succeed_at

RESULT_SECONDS_MAX = 30
COUNTDOWN_TASKS = 50
COUNTDOWN_SECONDS = 60


def check_results(tasks: int) -> dict[str, Any]:
    pending = [add.delay(number, 1) for number in range(tasks)]
    values = [result.get(timeout=RESULT_SECONDS_MAX) for result in pending]
    return {"ok": values == [number + 1 for number in range(tasks)], "results": len(values)}


def check_retries(tasks: int) -> dict[str, Any]:
    pending = [succeed_at.delay(3) for _ in range(5)]
    retries = [result.get(timeout=RESULT_SECONDS_MAX) for result in pending]
    return {"ok": retries == [2] * 5, "retries": retries}


def check_failure(tasks: int) -> dict[str, Any]:
    error = fail.delay("as asked").get(timeout=RESULT_SECONDS_MAX, propagate=False)
    return {"ok": isinstance(error, ValueError) and str(error) == "as asked", "error": repr(error)}


def check_group(tasks: int) -> dict[str, Any]:
    values = group(add.s(number, number) for number in range(20)).apply_async().get(timeout=RESULT_SECONDS_MAX)
    return {"ok": values == [2 * number for number in range(20)], "results": len(values)}


def check_chain(tasks: int) -> dict[str, Any]:
    value = (add.s(1, 2) | add.s(10) | add.s(100)).apply_async().get(timeout=RESULT_SECONDS_MAX)
    return {"ok": value == 113, "value": value}


def check_countdown(tasks: int) -> dict[str, Any]:
    began = time.monotonic()
    value = add.apply_async((2, 3), countdown=1).get(timeout=RESULT_SECONDS_MAX)
    seconds = time.monotonic() - began
    return {"ok": value == 5 and seconds >= 0.9, "seconds": round(seconds, 2)}


def check_remote_control(tasks: int) -> dict[str, Any]:
    """Broadcast to the worker over its pidbox fan-out exchange, answers over a reply queue."""
    answers = app.control.ping(timeout=3)
    return {"ok": len(answers) >= 1, "answers": len(answers)}


def check_chord_refused_by_celery(tasks: int) -> dict[str, Any]:
    try:
        chord([add.s(1, 1), add.s(2, 2)])(add.si(0, 0))
    except NotImplementedError as error:
        return {"ok": True, "refusal": str(error).strip().split("\n")[0]}
    return {"ok": False, "refusal": None}


def check_countdowns_before_others(tasks: int) -> dict[str, Any]:
    """A worker that may hold one message, and tasks that it is to hold for a minute: for each it may hold one more, so that one
    which comes behind them is run at once."""
    for number in range(COUNTDOWN_TASKS):
        add.apply_async((number, 1), countdown=COUNTDOWN_SECONDS)
    began = time.monotonic()
    value = add.delay(2, 3).get(timeout=COUNTDOWN_SECONDS / 2)
    seconds = time.monotonic() - began
    return {"ok": value == 5, "seconds": round(seconds, 2)}


CHECKS: tuple[Callable[[int], dict[str, Any]], ...] = (
    check_results,
    check_retries,
    check_failure,
    check_group,
    check_chain,
    check_countdown,
    check_remote_control,
    check_chord_refused_by_celery,
)


def main() -> int:
    """`celery_client TASKS`, or `celery_client countdowns` with a worker that holds one message."""
    countdowns = sys.argv[1] == "countdowns"
    tasks = 0 if countdowns else int(sys.argv[1])
    report: dict[str, Any] = {}
    for check in (check_countdowns_before_others,) if countdowns else CHECKS:
        name = check.__name__.removeprefix("check_")
        began = time.monotonic()
        try:
            report[name] = check(tasks)
        except Exception as error:  # whatever went wrong is this scenario's result, and the others still run
            report[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        report[name]["took_seconds"] = round(time.monotonic() - began, 2)
    report["ok"] = all(entry["ok"] for entry in report.values())
    print(json.dumps(report, indent=2))
    return int(not report["ok"])


if __name__ == "__main__":
    sys.exit(main())
