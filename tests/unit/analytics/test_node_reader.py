"""The process that a node starts: a question about a directory, and its answer as JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analytics.fold.lives import RETURNED, LifeStep
from analytics.life.life_objects import STEPS_MAX, life_objects
from analytics.life.node_reader import EXIT_REFUSED, ReaderQuestion, answer
from analytics.life.pursuit import KnownStep
from analytics.life.wanted import TextProperty
from broker.json_values import NOT_UTF8
from native import content
from native.log_tables import DEATHS
from quorum.fifo.commands import ConsumerKey
from storage.history.name_records import ActorRow
from tests.unit.analytics.test_pursuit import QUEUE, acknowledged, enqueued, entries, log, message, publish, pursued
from wire.amqp.tables import encode_properties

AT_MS = 1_772_337_600_000


def told(data: Path, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(answer(ReaderQuestion(str(data), **asked)))
    return found


def test_a_life_says_who_what_and_when_and_what_it_stands_on(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(10, message("m0"), message("m1", b"body")), acknowledged(11, 12))
    found = told(tmp_path / "n1", queue=QUEUE, by="message_id", value="m1")
    (life,) = found["lives"]
    assert (life["queue"], life["place"], life["position"]) == (QUEUE, [11], [QUEUE, 11, 0, 0])
    assert (life["message_id"], life["body_bytes"], life["routing_key"]) == ("m1", 4, "q")
    assert [step["event"] for step in life["steps"]] == ["acked"]
    assert (found["coverage"]["files"], found["more"]) == (1, False)


def test_places_are_those_of_the_kind_of_queue(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(10, message("m0"), message("m1")), entries(3, 1, enqueued(0, message("m2"))))
    (life,) = told(tmp_path / "n1", queue=QUEUE, by="place", value="11")["lives"]
    assert life["message_id"] == "m1"
    (life,) = told(tmp_path / "n1", queue=8, by="message_id", value="m2")["lives"]
    place = "/".join(map(str, life["place"]))
    assert told(tmp_path / "n1", queue=8, by="place", value=place)["lives"] == [life]


def test_what_a_message_became_is_found_by_where_it_died(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(10, message("m0")))
    assert told(tmp_path / "n1", queue=QUEUE, died=[[QUEUE, 10], [8, 3, 0, 0]])["lives"] == []


def test_several_places_of_several_queues_are_found_with_one_question(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(10, message("m0"), message("m1")), entries(3, 1, enqueued(0, message("m2"))))
    everything = told(tmp_path / "n1", places=[[QUEUE, 10, 0, 0], [QUEUE, 11, 0, 0]])["lives"]
    assert [one["message_id"] for one in everything] == ["m0", "m1"]
    (entry,) = told(tmp_path / "n1", queue=8, by="message_id", value="m2")["lives"]
    assert told(tmp_path / "n1", places=[[8, *entry["place"]]], died=[[QUEUE, 10]])["lives"] == [entry]


def test_a_message_that_came_back_without_an_end_is_told_up_to_a_bound(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, message("m")))
    found = pursued(tmp_path, TextProperty("message_id", "m"))
    found.messages[0].steps = [KnownStep(LifeStep(0, 0, 0, 1, RETURNED, 1, None, "nacked"), [])] * (STEPS_MAX + 7)
    (life,) = life_objects(found)
    assert (len(life["steps"]), life["steps_left_out"]) == (STEPS_MAX, 7)


def told_of(tmp_path: Path, *steps: KnownStep, **found: Any) -> dict[str, Any]:
    """One message, of which a log would tell this."""
    log(tmp_path / "n1", 1, publish(0, message("m")))
    pursuit = pursued(tmp_path, TextProperty("message_id", "m"))
    one = pursuit.messages[0]
    one.found, one.steps = one.found._replace(**found), list(steps)
    (life,) = life_objects(pursuit)
    assert life["steps_left_out"] == 0
    return life


@pytest.mark.parametrize(("number", "reason"), [*enumerate(DEATHS), (None, None), (len(DEATHS), None)])
def test_a_dead_letter_says_where_and_why_it_died(tmp_path: Path, number: int | None, reason: str | None) -> None:
    life = told_of(tmp_path, died_in=(9, 4, 0, 2), death_reason=number)
    assert (life["died_in"], life["death_reason"]) == ([9, 4, 0, 2], reason)


def test_times_are_told_to_the_millisecond(tmp_path: Path) -> None:
    step = KnownStep(LifeStep(0, 0, 0, 1, RETURNED, AT_MS + 1, None, "nacked"), [])
    life = told_of(tmp_path, step, KnownStep(step.step._replace(at=None), []), expires_at=AT_MS, at=1_000 * AT_MS)
    assert life["published_at"] == life["expires_at"] == "2026-03-01T04:00:00.000+00:00"
    assert [one["at"] for one in life["steps"]] == ["2026-03-01T04:00:00.001+00:00", None]
    assert told_of(tmp_path, expires_at=None)["expires_at"] is None


def test_who_it_was_is_a_client_with_its_connection_or_a_number_that_no_log_names(tmp_path: Path) -> None:
    tag = ActorRow(3, tag="t")
    channel = ActorRow(2, user="u")
    connection = ActorRow(1, user="other", address="a:1 -> b:2", connection_name="c", product="p")
    back = LifeStep(0, 0, 0, 1, RETURNED, AT_MS, 77, "nacked")
    of_group = back._replace(consumer=ConsumerKey(4, 5, 6))
    life = told_of(
        tmp_path,
        KnownStep(back, [tag, channel, connection]), KnownStep(back, []), KnownStep(of_group, []),
        KnownStep(back._replace(consumer=None), []), KnownStep(back._replace(consumer=0), []),
    )  # fmt: skip
    named, *unnamed = [step["who"] for step in life["steps"]]
    assert named == {
        "user": "u", "address": "a:1", "connection": "c", "product": "p", "consumer_tag": "t", "other": "",
    }  # fmt: skip
    nobody = dict.fromkeys(named, "")
    assert unnamed == [nobody | {"other": "actor 77"}, nobody | {"other": "consumer 6 of node 4"}, None, None]


def test_names_that_are_no_text_are_said_as_everywhere(tmp_path: Path) -> None:
    odd = content.encode(encode_properties({"message_id": "m", "correlation_id": "\udcff"}), b"")
    log(tmp_path / "n1", 1, publish(0, odd))
    (life,) = told(tmp_path / "n1", queue=QUEUE, by="message_id", value="m")["lives"]
    assert life["correlation_id"].startswith(NOT_UTF8)


def test_an_unknown_question_is_refused_with_one_line(tmp_path: Path) -> None:
    asked = msgspec.json.encode({"data": str(tmp_path / "none"), "queue": 1, "by": "message_id", "value": "m"})
    done = subprocess.run([sys.executable, "-m", "analytics.life.node_reader"], input=asked, capture_output=True)
    assert done.returncode == EXIT_REFUSED and done.stderr.count(b"\n") == 1 and b"none" in done.stderr
    log(tmp_path / "n1", 1, publish(0, message("m")))
    with pytest.raises(ValueError, match="not looked for by 'colour'"):
        told(tmp_path, queue=1, by="colour", value="red")
