"""Damage to a node's files: what stands before it is kept, nothing is made up, and the member is another one afterwards."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raft.core import packs
from raft.core.errors import Damaged
from raft.core.messages import Entry, Membership, node_of
from raft.core.ready import Facts
from raft.store import groups_file
from raft.store.replicas import ReplicaNumbers
from storage.names import (
    LOG_DIRECTORY,
    LOG_FACTS,
    QUARANTINE_DIRECTORY,
    RAFT_DIRECTORY,
    RAFT_GROUPS,
    log_file,
    temporary,
)
from storage.segment import Segment
from tests.sim.disk import Fault, SimDisk, no_faults
from tests.unit.raft.store_world import TINY, World, cut_off, digest_of, replicas_from

GROUPS = (7, 8)


def small_log(file_bytes_max: int = 600) -> World:
    """Two groups with facts, entries, an overwrite, a membership, and a snapshot, in two files of the log."""
    world = World(file_bytes_max=file_bytes_max, limits=replace(TINY, log_files_kept=9)).open()
    for group in GROUPS:
        world.create(group)
        world.facts(group, 1, 0)
        world.append(group, 1, 1, [b"a", b"bb", b"old"])
        world.settle()
    for group in GROUPS:
        world.facts(group, 2, 5)
        world.append(group, 3, 2, [b"new", b"d"], Membership((1,), (2,)))
        world.settle()
    world.snapshot(7, 2, [1], b"state")
    world.append(8, 5, 2, [b"e"])
    world.settle()
    world.log.close()
    world.disk.kill()
    return world


def judge(world: World, disk: SimDisk, certain: bool = True, go_on: bool = True, settled_before: bool = False) -> int:
    """Open a damaged copy. How many groups were renumbered; `certain` that whatever is lost is known to be lost;
    `settled_before` that an earlier start may have done so."""
    opened = World(disk, limits=world.limits, file_bytes_max=world.file_bytes_max, replicas=replicas_from(5000)).open()
    for group in GROUPS:
        states = [one for _, one in world.history[group] if one is not None]
        if group not in opened.store.stores:
            assert opened.findings or not certain, f"group {group} is gone, and nobody says so"
            continue
        found = digest_of(opened.store.group(group))
        if group in opened.store.renumbered:
            assert found.member != states[-1].member and node_of(found.member) == 1
            assert found.facts.vote == 0
            assert any(f"group {group} " in finding for finding in opened.findings)
        elif found.member != states[-1].member:
            assert settled_before, f"group {group} was renumbered, and nobody says so"
        elif certain:
            assert found == states[-1]
        else:
            assert found in states
            continue
        begun = [one for one in states if one.snapshot == found.snapshot and one.state == found.state]
        assert begun, f"snapshot {found.snapshot} was never taken"
        prefixes = [one.entries[found.first - one.first :][: len(found.entries)] for one in begun]
        assert found.entries in prefixes, f"{found.entries} was never the log of group {group}"
    if go_on:
        goes_on(opened)
    return len(opened.store.renumbered)


def goes_on(opened: World) -> None:
    """Damage is settled once: the next starts find the same, and what was appended since."""
    again = opened.reopened()
    assert again.store.renumbered == []
    for group, store in opened.store.stores.items():
        assert digest_of(again.store.group(group)) == digest_of(store)
        again.store.group(group).append(None, [entry_behind(again, group)])
    again.settle()
    assert again.reopened().store.renumbered == []


def entry_behind(world: World, group: int) -> Entry:
    last = world.store.group(group).last_index()
    return Entry(last + 1, 9, 0, b"after")


def log_sizes(world: World) -> dict[str, int]:
    names = [f"{LOG_DIRECTORY}/{name}" for name in world.disk.list(LOG_DIRECTORY)]
    return {name: len(world.disk.content(name).rstrip(b"\0")) for name in names}


def test_a_flipped_bit_of_the_log_is_noticed_and_nothing_is_made_up() -> None:
    world = small_log()
    renumbered = flips = 0
    for name, size in log_sizes(world).items():
        for bit in range(0, size * 8, 5):  # with 1 for 5 all hold, in a minute; a checksum does not know the difference
            disk = world.disk.copy()
            disk.flip_bit(name, bit)
            renumbered += judge(world, disk, go_on=bit % 16 == 0) > 0
            flips += 1
    assert renumbered > flips * 0.6, f"{renumbered} of {flips} flips cost a group its number"


def test_a_prefix_of_the_log_is_a_moment_of_it() -> None:
    """Where the last file ends nobody can know; where an earlier one does, the next one says."""
    world = small_log()
    sizes = log_sizes(world)
    last = max(name for name, size in sizes.items() if size)
    for name, size in sizes.items():
        for length in range(0, size, 3):
            disk = world.disk.copy()
            disk.overwrite(name, disk.content(name)[:length])
            judge(world, disk, certain=name != last)


@pytest.mark.parametrize("name", RAFT_GROUPS)
def test_one_copy_of_the_groups_file_is_enough(name: str) -> None:
    world = flushed_world()
    if not world.disk.exists(name):
        pytest.fail(f"{name} was never written")
    disk = world.disk.copy()
    disk.flip_bit(name, 200)
    opened = World(disk, limits=world.limits).open()
    assert len(opened.findings) >= 1
    for group in GROUPS:
        found = digest_of(opened.store.group(group))
        now = world.now(group)
        assert found == now or (group in opened.store.renumbered and found.member != now.member)


@pytest.mark.parametrize("damaged", [RAFT_GROUPS[:1], RAFT_GROUPS[1:], RAFT_GROUPS], ids=["one", "the other", "both"])
def test_a_start_writes_copies_of_the_groups_file_that_it_found_damaged(damaged: tuple[str, ...]) -> None:
    """It waited for the next change. On a node where nothing changes the other copy was damaged before that, too."""
    world = flushed_world()
    disk = world.disk.copy()
    for name in damaged:
        disk.flip_bit(name, 200)
    opened = without_work(world, disk).open()
    members = {group: store.member for group, store in opened.store.stores.items()}
    assert groups_file.load(disk)[1] == []
    for name in RAFT_GROUPS:
        one_left = disk.copy()
        one_left.flip_bit(name, 200)
        again = without_work(world, one_left).open()
        assert {group: store.member for group, store in again.store.stores.items()} == members


def test_a_start_on_a_full_disk_goes_on_with_one_copy_of_the_groups_file() -> None:
    world = flushed_world()
    disk, now = world.disk.copy(), world.store.groups_file.generation
    older = RAFT_GROUPS[(now + 1) % 2]
    disk.flip_bit(older, 200)
    disk.faults = lambda call: Fault.ENOSPC if (call.operation, call.name) == ("create", temporary(older)) else None
    opened = without_work(world, disk).open()
    assert (opened.store.groups_file.generation, opened.store.renumbered) == (now, [])
    assert [error.name for error in groups_file.load(disk)[1]] == [older]
    disk.faults = no_faults
    goes_on(opened)


def without_work(world: World, disk: SimDisk) -> World:
    """A node with this disk that has no reason to let go of a log file, and so to say anew what its groups are."""
    return World(disk, limits=replace(world.limits, log_files_kept=99), replicas=world.replicas)


def flushed_world() -> World:
    """Two groups, partly in segments, one with a snapshot that has live entries."""
    world = World().open()
    for group in GROUPS:
        world.create(group)
    for turn in range(12):
        for group in GROUPS:
            world.append(group, world.now(group).last + 1, 1, [b"%d" % turn * 40, b"x" * 90])
        world.settle()
    world.snapshot(7, 9, [2, 3, 8], b"a state" * 9)
    for turn in range(12):
        for group in GROUPS:
            world.append(group, world.now(group).last + 1, 1, [b"%d" % turn * 40, b"x" * 90])
        world.settle()
    world.store.tick(10)
    world.check_now()
    world.log.close()
    world.disk.kill()
    return world


def test_a_flipped_bit_of_a_segment_or_snapshot_is_never_read_as_something_else() -> None:
    world = flushed_world()
    files = [name for name in world.disk.list(RAFT_DIRECTORY) if name.endswith((".seg", ".snap"))]
    assert len(files) > 5 and any(name.endswith(".snap") for name in files)
    for name in files:
        path = f"{RAFT_DIRECTORY}/{name}"
        for at in range(0, len(world.disk.content(path)) * 8, 37):
            disk = world.disk.copy()
            disk.flip_bit(path, at)
            opened = World(disk, limits=world.limits).open()
            for group in GROUPS:
                check_or_repair(world, opened, group)


def check_or_repair(world: World, opened: World, group: int) -> None:
    store, now = opened.store.group(group), world.now(group)
    if group in opened.store.renumbered:
        assert digest_of(store).member != now.member
        return
    try:
        assert digest_of(store) == now
    except Damaged:
        members: list[int] = []
        opened.store.repair(group, Damaged("it cannot be read"), members.append)
        opened.settle()
        assert members == [store.member] and store.member != now.member
        assert (store.first_index(), store.last_index(), store.snapshot().index) == (1, 0, 0)
        assert opened.disk.list(QUARANTINE_DIRECTORY), "what is given up lies in the quarantine"


def test_a_segment_that_is_gone_makes_a_member_another_one_only_once() -> None:
    """The log named it for ever, and so every start found the member damaged again."""
    world = flushed_world()
    segments = [name for name in world.disk.list(RAFT_DIRECTORY) if name.endswith(".seg")]
    renumbered = 0
    for name in segments:
        disk = world.disk.copy()
        disk.delete(f"{RAFT_DIRECTORY}/{name}")
        disk.sync_dir(RAFT_DIRECTORY)
        renumbered += judge(world, disk)
    assert renumbered == len(segments)


def segments_of(world: World, group: int) -> list[str]:
    """Those that the group names, oldest first, with their paths."""
    return [row.files(group)[0] for row in world.store.group(group).log.segments]


def opened_with(world: World, name: str, content: bytes) -> World:
    """A start that finds this in a file."""
    disk = world.disk.copy()
    disk.overwrite(name, content)
    return started_on(disk, world)


def must_have_kept(world: World, opened: World, group: int, last: int) -> None:
    """The member is another one, and has all of its group up to this entry."""
    found, now = digest_of(opened.store.group(group)), world.now(group)
    assert group in opened.store.renumbered and found.member != now.member and found.facts.vote == 0
    assert (found.snapshot, found.state, found.live) == (now.snapshot, now.state, now.live)
    assert found.entries == now.entries[: last + 1 - now.first]
    assert any(f"group {group} " in finding and "damaged" in finding for finding in opened.findings)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("rubbish", [bytes(5000), b"\xa5" * 5000, b"x"])
def test_rubbish_behind_the_end_of_a_segment_costs_no_entry(group: int, rubbish: bytes) -> None:
    """All that the group had was given up when it was the first one: 800 messages of which none was damaged."""
    world = flushed_world()
    assert segments_of(world, group)
    for name in segments_of(world, group):
        opened = opened_with(world, name, world.disk.content(name) + rubbish)
        must_have_kept(world, opened, group, world.now(group).last)
        goes_on(opened)


@pytest.mark.parametrize("group", GROUPS)
def test_a_damaged_index_or_footer_of_a_segment_costs_no_entry(group: int) -> None:
    world = flushed_world()
    for name in segments_of(world, group):
        content = world.disk.content(name)
        for at in range(end_of_records(world, name), len(content), 7):
            twin = bytearray(content)
            twin[at] ^= 1
            for damaged in (bytes(twin), content[:at]):
                opened = opened_with(world, name, damaged)
                must_have_kept(world, opened, group, world.now(group).last)
        goes_on(opened)


def end_of_records(world: World, name: str) -> int:
    return Segment(world.disk, name, as_far_as_whole=True).whole


def test_what_stands_before_the_first_damaged_record_of_a_cut_segment_is_kept() -> None:
    world = flushed_world()
    group = 8
    for row, name in zip(world.store.group(group).log.segments, segments_of(world, group), strict=True):
        content = world.disk.content(name)
        whole = row.first - 1
        for record, data in Segment(world.disk, name).records():
            position = content.index(data)
            opened = opened_with(world, name, content[: position + len(data) - 1])
            must_have_kept(world, opened, group, whole)
            goes_on(opened)
            whole = record[4] + packs.count_in(memoryview(data)[record[5] :]) - 1
        assert whole == row.last


def test_an_overwritten_entry_does_not_come_back_where_the_end_of_a_newer_segment_is_lost() -> None:
    """The older segment still has it."""
    world = World().open()
    world.create(8)
    world.append(8, 1, 1, [b"old %d" % at * 9 for at in range(1, 7)])
    world.settle()
    move_out(world)
    older = segments_of(world, 8)
    world.append(8, 3, 2, [b"new", b"newer"])
    world.settle()
    world.append(8, 5, 3, [b"newest", b"and its end"])
    world.settle()
    move_out(world)
    newer = [name for name in segments_of(world, 8) if name not in older]
    assert len(newer) == 1, newer
    world.log.close()
    world.disk.kill()
    content = world.disk.content(newer[0])
    last = max(data for _, data in Segment(world.disk, newer[0]).records() if b"newest" in data)
    opened = opened_with(world, newer[0], content[: content.index(last) + 5])
    must_have_kept(world, opened, 8, 4)
    goes_on(opened)


def move_out(world: World) -> None:
    """All that group 8 has in the log goes to segments."""
    world.create(900)
    while world.store.group(8).log.rows is not None:
        world.append(900, world.now(900).last + 1, 1, [bytes(500)])
        world.settle()
    world.remove(900)
    world.settle()


def test_mending_a_segment_can_be_cut_off_anywhere() -> None:
    world = flushed_world()
    name = segments_of(world, 8)[0]
    damaged = world.disk.copy()
    damaged.overwrite(name, world.disk.content(name) + b"rubbish")
    before = world.now(8)
    for call in range(1, 10_000):
        disk = damaged.copy()
        through = cut_off(world, disk, call)
        disk.faults = no_faults
        disk.crash(Random(call))
        opened = started_on(disk, world)
        found = digest_of(opened.store.group(8))
        assert found.entries == before.entries and found.member != before.member, f"cut off at call {call}"
        if through:
            break
    assert call > 10
    goes_on(opened)


def test_a_missing_log_file_costs_what_stands_behind_it() -> None:
    world = small_log()
    for number in (1, 2):
        disk = world.disk.copy()
        if disk.exists(log_file(number)):
            disk.delete(log_file(number))
            judge(world, disk, certain=number == 1)


def test_a_number_that_the_log_forgot_is_not_given_again() -> None:
    """Simulated seed 8100087 of brokers: a member was repaired under a new number, and followed the leader as that one. Then
    the copy of the groups that told of it rotted; the other one knew its log no further than before the repair, which was
    made again, under the same number. The leader believed that it still had what the first one had acknowledged."""
    numbered = ReplicaNumbers(10_000, 20_000, 30_000, lambda reserved: None)
    world = replace(flushed_world(), replicas=numbered).open()
    before = {name: world.disk.content(name) for name in RAFT_GROUPS}
    group, first_file = GROUPS[0], world.store.groups_file.first_file
    numbers: list[int] = []
    world.store.repair(group, Damaged("entry 2 cannot be read", 2), numbers.append)
    while world.log.files().start <= first_file:  # the record of it goes with its file
        world.store.group(group).append(None, [entry_behind(world, group)])
        world.settle()
        world.store.tick(10**9)
        world.settle()
    newest = RAFT_GROUPS[world.store.groups_file.generation % 2]
    world.disk.flip_bit(newest, 100)
    older = next(name for name in RAFT_GROUPS if name != newest)
    world.disk.overwrite(older, before[older])
    again = world.reopened().store.group(group).member
    assert len({*numbers, again}) == 2, f"member {again} is there for the second time"


@pytest.mark.parametrize("with_facts", [True, False])
def test_a_log_that_is_gone_altogether_is_missed(with_facts: bool) -> None:
    """Members went on with what the file of groups told of them, and voted again in terms in which they had voted. Without the
    log's facts it began again with file 1, and at the next start what was written there was taken for old."""
    world = flushed_world()
    disk = world.disk.copy()
    for name in log_sizes(world):
        disk.delete(name)
    if not with_facts:
        disk.delete(LOG_FACTS)
    opened = World(disk, limits=world.limits, replicas=world.replicas).open()
    assert opened.store.groups_file.states, "there is nothing to be missed"
    assert sorted(opened.store.renumbered) == sorted(opened.store.stores)
    assert any("nothing is left of the log" in finding for finding in opened.findings)
    assert all(store.facts().vote == 0 for store in opened.store.stores.values())
    for group, store in opened.store.stores.items():
        store.append(None, [entry_behind(opened, group)])
    opened.settle()
    goes_on(opened)
    for group, store in opened.reopened().store.stores.items():
        assert store.entries(store.last_index(), store.last_index() + 1, 1)[0].data == b"after", f"of group {group}"


def without_its_log(world: World, *, with_facts: bool = True) -> SimDisk:
    """A copy of the disk as it is, on which no file of the log is left."""
    disk = world.disk.copy()
    for name in disk.list(LOG_DIRECTORY):
        disk.delete(f"{LOG_DIRECTORY}/{name}")
    if not with_facts:
        disk.delete(LOG_FACTS)
    return disk


def started_on(disk: SimDisk, world: World) -> World:
    """Another process on it, as if it were the same world's."""
    return World(disk, limits=world.limits, file_bytes_max=world.file_bytes_max, replicas=world.replicas).open()


@pytest.mark.parametrize("with_facts", [True, False])
def test_a_log_that_is_gone_is_missed_once_however_often_power_goes_before_a_word_is_written(with_facts: bool) -> None:
    """Simulated seeds 301681, 301828, 302528: every start that wrote nothing left no log for the next, which found it gone
    again. So the members were others after each crash, and the leader had to replace them each time."""
    world = flushed_world()
    opened = started_on(without_its_log(world, with_facts=with_facts), world)
    members = {group: store.member for group, store in opened.store.stores.items()}
    assert sorted(opened.store.renumbered) == sorted(members) == sorted(GROUPS)
    for seed in range(5):
        opened.disk.crash(Random(seed))
        opened = started_on(opened.disk, world)
        assert opened.store.renumbered == [] and opened.findings == []
        assert {group: store.member for group, store in opened.store.stores.items()} == members


@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("with_facts", [True, False])
@pytest.mark.parametrize("again_with_facts", [True, False])
def test_a_log_that_is_gone_a_second_time_is_missed_a_second_time(
    promised: bool, with_facts: bool, again_with_facts: bool
) -> None:
    """Also where the second log was begun with file 1, which looks like a node that has never written anything."""
    world = flushed_world()
    opened = started_on(without_its_log(world, with_facts=with_facts), world)
    if promised:
        for group, store in opened.store.stores.items():
            store.append(Facts(store.facts().term + 1, 77), [entry_behind(opened, group)])
        opened.settle()
    again = started_on(without_its_log(opened, with_facts=again_with_facts), world)
    assert sorted(again.store.renumbered) == sorted(GROUPS)
    assert all(store.facts().vote == 0 for store in again.store.stores.values())
    assert again.reopened().store.renumbered == []


@pytest.mark.parametrize("with_facts", [True, False])
def test_a_start_that_finds_its_log_gone_can_be_cut_off_anywhere(with_facts: bool) -> None:
    """Until the new log is begun the finding is made again; then never. Either way all members are others than they were
    before, and nobody has heard of a number that was given in between."""
    world = flushed_world()
    old = {group: store.member for group, store in world.reopened().store.stores.items()}
    lost = without_its_log(world, with_facts=with_facts)
    renumbered = []  # by the start behind the one that was cut off
    for call in range(1, 1000):
        disk = lost.copy()
        if cut_off(world, disk, call):
            break
        disk.faults = no_faults
        disk.crash(Random(call))
        opened = started_on(disk, world)
        renumbered.append(len(opened.store.renumbered))
        assert all(opened.store.group(group).member != old[group] for group in GROUPS), f"cut off at call {call}"
        goes_on(opened)
    assert renumbered == sorted(renumbered, reverse=True), "it was found no more, and then again"
    assert renumbered[0] == len(GROUPS) and call > 10


def test_a_log_that_is_gone_takes_no_group_along_that_is_created_later() -> None:
    """All groups had been removed, so nobody was renumbered, and the file of groups went on to speak of the lost log's files:
    the next start took a new group's records, which lay in files of the same numbers, for told of."""
    world = flushed_world().reopened()
    for group in GROUPS:
        world.remove(group)
    world.settle()
    for turn in range(6):
        world.create(20 + turn)
        world.append(20 + turn, 1, 1, [bytes(600)])
        world.settle()
        world.remove(20 + turn)
        world.settle()
    world.store.tick(10**7)
    world.settle()
    assert world.store.groups_file.first_file > 2 and not world.store.groups_file.states
    world.limits = replace(TINY, log_files_kept=9)
    opened = started_on(without_its_log(world, with_facts=False), world)
    opened.create(9)
    opened.settle()
    assert sorted(opened.reopened().store.stores) == [9]


def test_without_any_groups_file_nothing_is_deleted() -> None:
    """NATS #7556: that nobody names a file is no proof that nobody wants it."""
    world = flushed_world()
    disk = world.disk.copy()
    before = {name: disk.content(f"{RAFT_DIRECTORY}/{name}") for name in disk.list(RAFT_DIRECTORY) if "-" in name}
    for name in RAFT_GROUPS:
        disk.delete(name)
    opened = World(disk, limits=world.limits).open()
    assert any("nothing says" in finding for finding in opened.findings)
    aside = [disk.content(f"{QUARANTINE_DIRECTORY}/{name}") for name in disk.list(QUARANTINE_DIRECTORY)]
    assert all(content in aside for content in before.values())


def test_settling_damage_can_be_cut_off_anywhere() -> None:
    world = small_log()
    for name, size in log_sizes(world).items():
        if not size:
            continue
        damaged = world.disk.copy()
        damaged.flip_bit(name, size * 4)
        for call in range(1, 10_000):
            disk = damaged.copy()
            through = cut_off(world, disk, call)
            disk.faults = no_faults
            disk.crash(Random(call))
            judge(world, disk, go_on=call % 5 == 0, settled_before=True)
            if through:
                break
        assert call > 20


@pytest.mark.parametrize("comes_back", [False, True])
def test_nobody_is_told_of_the_repair_of_a_group_that_was_removed_before_it_was_durable(comes_back: bool) -> None:
    """Simulated seed 7200245: its queue had a new member here by then, which was begun twice, and the node stopped."""
    world = flushed_world()
    group, told = GROUPS[0], list[int]()
    was = world.store.group(group).member
    world.store.repair(group, Damaged("it cannot be read"), told.append)
    assert world.store.group(group).member != was and told == [], "the repair is written, and not durable yet"
    world.store.remove_group(group)
    if comes_back:
        world.create(group)
    world.settle()
    assert told == []
