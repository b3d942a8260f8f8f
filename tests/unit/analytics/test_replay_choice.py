"""Which messages of a log are meant, at the edges of what is asked for, and how they are told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analytics.fold.lives import Life, LifeState, PublishedRun
from analytics.fold.queue_history import PUBLISHED_BEFORE, folded
from analytics.inputs import log_files, snapshot_files
from analytics.past.past_events import past_of
from analytics.queue_events import fold_order
from analytics.read_snapshots import snapshot_said
from analytics.replay import chosen_runs, log_reader
from analytics.replay.choice import Choice
from analytics.replay.log_reader import ReplayQuestion, frames
from analytics.replay.logged_contents import StoredContent, locate
from classic.store.log_records import encode_published
from storage.history.name_records import ActorRow
from storage.names import archived, log_file
from storage.os_disk import OsDisk
from storage.record import Kind
from tests.unit.analytics.past_world import GROUP, PastWorld, archive, name_record
from tests.unit.analytics.test_pursuit import QUEUE, START, message, publish, record
from tests.unit.analytics.test_replay_reader import actor, bodies, durable_log, ended, places, told

ALL_ENDS = sorted(str(state) for state in LifeState if state.has_ended)


def life(at: int | None, key: str = "k") -> Life:
    return Life(5, 0, 0, 1, PublishedRun(1, 1, 1, "x", key), state=LifeState.ACKED, ended_at=at)


@pytest.mark.parametrize(
    ("since", "until", "taken"),
    [
        (None, None, [None, 9, 10, 11, 12]),
        (10, None, [10, 11, 12]),
        (None, 11, [9, 10]),
        (10, 12, [10, 11]),
        (10, 10, []),
        (0, 11, [9, 10]),
    ],
)
def test_when_they_left_decides_and_the_last_moment_is_left_out(
    since: int | None, until: int | None, taken: list[int | None]
) -> None:
    """What has no time is meant only where no time is asked for."""
    choice = Choice(["acked"], since=since, until=until)
    assert [at for at in (None, 9, 10, 11, 12) if choice.takes(life(at))] == taken


def test_how_they_left_and_with_which_key_they_came_decide() -> None:
    assert Choice(["acked"]).takes(life(1)) and not Choice(["got"]).takes(life(1))
    assert Choice(["acked"], routing_key="k").takes(life(1))
    assert not Choice(["acked"], routing_key="K").takes(life(1))
    assert Choice(["acked"], routing_key="").takes(life(1, ""))


def test_who_had_it_is_any_of_those_whom_a_consumer_belongs_to() -> None:
    owners = [ActorRow(3, tag="billing"), ActorRow(2), ActorRow(1, user="ann")]
    assert [Choice([], consumer=one).is_of(owners) for one in ("billing", "ann", "bob")] == [True, True, False]


@pytest.mark.parametrize(
    ("run", "first"), [((3, 5), 1 << 62), ((4, 4), 1 << 62), ((4, 5), 3), ((4, 6), 0), ((5, 0), 0), ((5, 5), 0)]
)
def test_of_a_quorum_queue_it_goes_on_behind_a_message_of_a_run(run: tuple[int, int], first: int) -> None:
    assert Choice([], after=[4, 5, 2]).first_behind(*run, 0, of_group=True) == first
    assert Choice([]).first_behind(*run, 7, of_group=True) == 7


def test_of_a_run_that_was_divided_what_lies_behind_the_place_is_left() -> None:
    assert Choice([], after=[4, 5, 2]).first_behind(4, 5, 9, of_group=True) == 9
    assert [Choice([], after=[12]).first_behind(entry, 0, 1, of_group=False) for entry in (3, 10, 12, 20)] == [
        10,
        3,
        1,
        1,
    ]


# what is told


def published(first: int, count: int, *bodies: bytes) -> list[bytes]:
    head = encode_published([(QUEUE, first)], 3, count, 10 * count, None, "x", "key")
    return record(Kind.CLASSIC_PUBLISH, head, *(message("m", body) for body in bodies))


def test_a_row_says_where_it_came_to_when_it_came_and_how_and_when_it_left(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, published(0, 2, b"a", b"b"), publish(2, message("m")), ended(1, 2))
    summary, ((*said, _),) = told(tmp_path / "n")
    assert said == [[1], "x", "key", True, 3, "acked", START + 2, START]
    assert summary["causes"] == [["acked", "x", "key", 1]]
    assert (summary["unknown"], summary["files"], summary["files_skipped"], summary["damaged_bytes"]) == (None, 1, 0, 0)
    assert summary["from_time"] < summary["to_time"]
    assert summary["from_time"].endswith("20.000+00:00") and summary["to_time"].endswith("20.002+00:00")


def test_messages_of_another_queue_at_the_same_places_are_not_taken_for_these(tmp_path: Path) -> None:
    both = [publish(0, message("m", b"mine")), publish(0, message("m", b"theirs"), queues=(8,))]
    for number, parts in enumerate((both, both[::-1]), 1):
        durable_log(tmp_path / f"n{number}", 1, *parts, publish(1, message("m", b"waits")), ended(0, 1))
        assert bodies(told(tmp_path / f"n{number}")[1]) == [b"mine"]


def test_of_messages_from_before_the_log_nothing_says_whether_their_key_is_the_one_that_is_meant(
    tmp_path: Path,
) -> None:
    """They were left out, and the answer was called a whole one."""
    durable_log(tmp_path / "n", 1, ended(0, 1), publish(1, message("m", b"kept")), ended(1, 2))
    summary, rows = told(tmp_path / "n")
    assert (summary["unknown"], places(rows), rows[0][-1]) == (None, [[0], [1]], b"")
    summary, rows = told(tmp_path / "n", routing_key="q")
    assert (summary["unknown"], places(rows), summary["skipped"]) == (PUBLISHED_BEFORE, [[1]], {"acked": 1})
    for late in ({"since": START + 2}, {"ends": ["got"]}):
        assert told(tmp_path / "n", routing_key="q", **late)[0]["unknown"] is None, "it left in another way, or before"


def test_a_content_that_its_file_has_lost_is_told_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the begin of it is left when it is read."""
    durable_log(tmp_path / "n", 1, publish(0, message("m", b"kept")), ended(0, 1))
    path = tmp_path / "n" / log_file(1)

    def located(*asked: Any) -> dict[tuple[int, int], StoredContent]:
        found, content = locate(*asked), path.read_bytes()
        path.write_bytes(content[: content.index(b"kept") + 1])
        return found

    monkeypatch.setattr(log_reader, "locate", located)
    assert [row[-1] for row in told(tmp_path / "n")[1]] == [b""]


def question(data: Path, *, with_contents: bool = True, **chosen: Any) -> ReplayQuestion:
    return ReplayQuestion(str(data), QUEUE, False, Choice(["acked"], **chosen), with_contents, 10, 1 << 30)


def test_without_contents_there_is_one_frame(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, publish(0, message("m")), ended(0, 1))
    assert len(list(frames(question(tmp_path / "n", with_contents=False)))) == 1


@pytest.mark.parametrize(
    ("size", "messages", "lengths"), [(1 << 18, 2, [2, 2, 1]), (1, 256, [1] * 5), (1 << 18, 5, [5])]
)
def test_a_frame_is_bounded_in_messages_and_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, messages: int, lengths: list[int]
) -> None:
    monkeypatch.setattr(log_reader, "FRAME_BYTES", size)
    monkeypatch.setattr(log_reader, "FRAME_MESSAGES", messages)
    durable_log(tmp_path / "n", 1, publish(0, *[message("m", b"%d" % n) for n in range(5)]), ended(0, 5))
    _, *lists = [msgspec.msgpack.decode(frame) for frame in frames(question(tmp_path / "n"))]
    assert [len(one) for one in lists] == [*lengths, 0]


def test_more_runs_than_are_chosen_at_once_are_another_replay_behind_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [publish(number, message("m", b"%d" % number)) for number in range(3)]
    durable_log(tmp_path / "n", 1, *runs, *(ended(number, number + 1) for number in (2, 0, 1)))
    monkeypatch.setattr(chosen_runs, "RUNS_MAX", 2)
    summary, rows = told(tmp_path / "n")
    assert (summary["more"], bodies(rows), summary["last"]) == (True, [b"0", b"1"], [1])
    summary, rows = told(tmp_path / "n", after=[0])
    assert (summary["more"], bodies(rows)) == (False, [b"1", b"2"])


def test_those_of_another_consumer_are_left_out_and_counted(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, actor(5, "billing"), publish(0, message("m"), message("m")), ended(0, 2))
    summary, rows = told(tmp_path / "n", consumer="shipping")
    assert (rows, summary["skipped"], summary["unnamed"]) == ([], {"acked": 2}, 0)


def test_causes_are_bounded_and_what_is_over_is_told_by_how_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "CAUSES_MAX", 1)
    durable_log(
        tmp_path / "n",
        1,
        publish(0, message("m")),
        published(1, 1, b"a"),
        ended(0, 2),
        published(2, 1, b"b"),
        ended(2, 3),
    )
    assert told(tmp_path / "n")[0]["causes"] == [["acked", "", "q", 1], ["acked", "", "", 2]]


def test_a_file_that_is_damaged_or_cannot_hold_the_queue_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "n"
    durable_log(directory, 1, name_record(8), publish(0, message("m"), queues=(8,)))
    durable_log(directory, 2, publish(0, message("m", b"kept")), ended(0, 1), publish(1, message("m", b"damaged")))
    durable_log(directory, 3)
    (directory / "archive").mkdir()
    archive(OsDisk(str(directory)), 1)
    path = directory / log_file(2)
    path.write_bytes(path.read_bytes().replace(b"damaged", b"Damaged"))
    summary, rows = told(directory)
    assert (bodies(rows), summary["files"], summary["files_skipped"]) == ([b"kept"], 2, 1)
    assert summary["damaged_bytes"] > 0
    torn = tmp_path / "torn"
    durable_log(torn, 1, publish(0, message("m", b"kept")), ended(0, 1))
    (torn / log_file(1)).write_bytes((torn / log_file(1)).read_bytes() + b"half a record")
    assert told(torn)[0]["damaged_bytes"] == 0, "what a running node is about to write is no damage"


# a quorum queue


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PastWorld:
    made = PastWorld(tmp_path_factory.mktemp("past") / "n1", seed=12)
    made.live(10)
    made.snapshot()  # so all before it was committed
    return made


def of_group(world: PastWorld, **chosen: Any) -> dict[str, Any]:
    choice = Choice(**{"ends": ALL_ENDS, **chosen})
    asked = ReplayQuestion(str(world.directory), GROUP & 0xFFFFFFFF, True, choice, False, 10, 1 << 30)
    (frame,) = frames(asked)
    return msgspec.msgpack.decode(frame)  # type: ignore[no-any-return]


def counted_by_hand(world: PastWorld) -> dict[str, int]:
    """Of all events at once."""
    files, snapshots = log_files([str(world.directory)]), snapshot_files([str(world.directory)])
    read = [past_of(file, GROUP, range(1 << 62), tail=False) for file in files]
    said = [one for file in snapshots for one in snapshot_said(file) or ()]
    events = [event for one in read for event in (*one.standing, *one.events)]
    found: dict[str, int] = {}
    for one in folded(sorted([*events, *said], key=fold_order)).lives:
        if one.state.has_ended:
            found[str(one.state)] = found.get(str(one.state), 0) + one.count
    return found


@pytest.mark.parametrize("window", [1, 7, 100_000])
def test_what_left_a_quorum_queue_is_counted_whatever_is_in_memory_at_once(
    world: PastWorld, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(chosen_runs, "WINDOW_ENTRIES", window)
    wanted = counted_by_hand(world)
    assert len(wanted) > 1
    summary = of_group(world)
    causes: dict[str, int] = {}
    for end, _, _, count in summary["causes"]:
        causes[end] = causes.get(end, 0) + count
    assert (causes, summary["unknown"], summary["uncommitted"]) == (wanted, None, 0)
    summary = of_group(world, ends=["acked"])
    assert (summary["messages"], summary["skipped"]) == (
        wanted["acked"],
        {end: count for end, count in wanted.items() if end != "acked"},
    )


def test_where_the_begin_of_a_quorum_queues_log_is_gone_it_is_said_that_not_all_is_known(
    world: PastWorld, tmp_path: Path
) -> None:
    wanted = of_group(world)
    shutil.copytree(world.directory, tmp_path / "n1")
    (tmp_path / "n1" / archived(log_file(1))).unlink()
    choice = Choice(ALL_ENDS, routing_key="none has this")
    asked = ReplayQuestion(str(tmp_path / "n1"), GROUP & 0xFFFFFFFF, True, choice, False, 10, 1 << 30)
    (frame,) = frames(asked)
    summary = msgspec.msgpack.decode(frame)
    assert wanted["unknown"] is None and summary["messages"] == 0 and summary["unknown"]
