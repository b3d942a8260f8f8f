"""Segments: what was sealed is read back or reported; what was not sealed ends where its records do."""

from __future__ import annotations

import pytest

from storage.errors import Corrupt, TornTail
from storage.segment import FOOTER_BYTES, Segment, SegmentWriter, must_be_sealed
from storage.segment_index import SegmentIndex
from tests.sim.disk import SimDisk
from tests.unit.storage.log_world import KIND

NAME = "00000000000000000001.seg"


def written(count: int = 5, sealed: bool = True) -> tuple[SimDisk, dict[int, bytes]]:
    disk = SimDisk()
    writer = SegmentWriter(disk, NAME)
    payloads = {}
    for at in range(count):
        payloads[at * 3] = bytes([at + 1]) * at * 7
        writer.append(KIND, 9, at * 3, [payloads[at * 3]], term=2, flags=1)
    if sealed:
        writer.seal()
    else:
        writer.sync()
    return disk, payloads


def payload(found: tuple[tuple[int, ...], bytes] | None) -> bytes | None:
    return None if found is None else found[1][found[0][5] : found[0][6]]


@pytest.mark.parametrize("sealed", [True, False])
def test_records_are_found_by_their_index(sealed: bool) -> None:
    disk, payloads = written(sealed=sealed)
    segment = Segment(disk, NAME)
    assert segment.sealed == sealed
    for number in range(-1, 20):
        assert payload(segment.read(max(number, 0))) == payloads.get(max(number, 0))
    assert [record[4] for record, _ in segment.records()] == list(payloads)
    first = next(segment.records())[0]
    assert first[:5] == (KIND, 1, 2, 9, 0)
    segment.close()


def test_an_empty_segment_can_be_sealed() -> None:
    disk, _ = written(count=0)
    assert Segment(disk, NAME).sealed and list(Segment(disk, NAME).records()) == []


def test_every_prefix_of_a_segment_is_whole_or_torn_at_a_record() -> None:
    disk, payloads = written()
    content = disk.content(NAME)
    for length in range(len(content)):
        disk.overwrite(NAME, content[:length])
        try:
            segment = Segment(disk, NAME)
        except TornTail as torn:
            assert torn.whole <= length == torn.size
            disk.overwrite(NAME, content[: torn.whole])
            segment = Segment(disk, NAME)
        got = {record[4]: data[record[5] : record[6]] for record, data in segment.records()}
        assert got == dict(list(payloads.items())[: len(got)]) and not segment.sealed


def test_every_flipped_bit_is_noticed_and_no_record_is_made_up() -> None:
    disk, payloads = written()
    content = disk.content(NAME)
    for bit in range(len(content) * 8):
        twin = bytearray(content)
        twin[bit // 8] ^= 1 << bit % 8
        disk.overwrite(NAME, bytes(twin))
        noticed = False
        for number, expected in payloads.items():
            try:
                assert payload(Segment(disk, NAME).read(number)) == expected
            except (Corrupt, TornTail):
                noticed = True
        assert noticed, f"bit {bit} was flipped, and nobody saw it"


def read_as_far_as_whole(disk: SimDisk) -> dict[int, bytes]:
    segment = Segment(disk, NAME, as_far_as_whole=True)
    assert not segment.sealed
    return {record[4]: data[record[5] : record[6]] for record, data in segment.records()}


def test_records_before_a_damaged_end_are_read_without_the_index_and_none_is_made_up() -> None:
    disk, payloads = written()
    content = disk.content(NAME)
    end_of_records = len(written(sealed=False)[0].content(NAME))
    for at in range(len(content)):
        twin = bytearray(content)
        twin[at] ^= 1
        for damaged in (content[:at], bytes(twin)):
            disk.overwrite(NAME, damaged)
            got = read_as_far_as_whole(disk)
            assert got == dict(list(payloads.items())[: len(got)])
            assert (len(got) == len(payloads)) == (at >= end_of_records)


@pytest.mark.parametrize("rubbish", [bytes(500), b"\xa5" * 500, b"x"])
def test_rubbish_behind_the_end_hides_no_record(rubbish: bytes) -> None:
    disk, payloads = written()
    disk.overwrite(NAME, disk.content(NAME) + rubbish)
    assert read_as_far_as_whole(disk) == payloads


def test_a_record_that_does_not_ascend_ends_what_is_read_without_the_index() -> None:
    disk, payloads = written(sealed=False)
    disk.overwrite(NAME, disk.content(NAME) * 2)
    assert read_as_far_as_whole(disk) == payloads
    with pytest.raises(TornTail):
        Segment(disk, NAME)


def test_a_segment_of_another_size_or_with_a_damaged_end_is_not_taken_for_sealed() -> None:
    disk, _ = written()
    content = disk.content(NAME)
    end_of_records = len(written(sealed=False)[0].content(NAME))
    must_be_sealed(disk, NAME, len(content))
    for at in range(end_of_records, len(content)):
        twin = bytearray(content)
        twin[at] ^= 1
        for damaged in (bytes(twin), content[:at], content + content[-at:]):
            disk.overwrite(NAME, damaged)
            with pytest.raises(Corrupt):
                must_be_sealed(disk, NAME, len(content))
    disk.overwrite(NAME, content[: end_of_records + FOOTER_BYTES])
    with pytest.raises(Corrupt, match="its end is damaged"):
        must_be_sealed(disk, NAME, end_of_records + FOOTER_BYTES)


def test_an_index_answers_exactly_and_from_below() -> None:
    index = SegmentIndex()
    for number, position in ((10, 0), (20, 100), (2**64 - 1, 2**40)):
        index.add(number, position)
    again = SegmentIndex.decode(index.encode())
    assert (again.first, again.last, len(again)) == (10, 2**64 - 1, 3)
    assert [again.find(number) for number in (9, 10, 15, 20, 2**64 - 1)] == [None, 0, None, 100, 2**40]
    assert [again.at_or_before(number) for number in (9, 10, 15, 25)] == [None, (10, 0), (10, 0), (20, 100)]
    with pytest.raises(AssertionError, match="does not follow"):
        index.add(5, 1)


@pytest.mark.parametrize("data", [b"x", bytes(8), bytes(32)])
def test_what_is_not_an_index_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        SegmentIndex.decode(data)
