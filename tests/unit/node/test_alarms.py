"""node/alarms.py: when publishers are held, and how early queues are told to page out."""

from node.alarms import AlarmPorts, Watcher, disk_check_delay_ms, memory_limit_bytes, memory_pressure, resident_bytes
from node.config import DiskSection, MemorySection


class Ports:
    def __init__(self) -> None:
        self.alarms: dict[str, str] = {}
        self.pressure = 0.0

    def as_ports(self) -> AlarmPorts:
        return AlarmPorts(
            raise_alarm=self.alarms.__setitem__,
            clear_alarm=lambda kind: self.alarms.pop(kind, None),
            set_pressure=lambda pressure: setattr(self, "pressure", pressure),
            free_bytes=lambda: 0,
        )


def watcher(ports: Ports) -> Watcher:
    return Watcher(
        MemorySection(high_watermark_bytes=1000, paging_ratio=0.5), DiskSection(free_limit_bytes=500), ports.as_ports()
    )


def test_memory_above_the_watermark_raises_and_below_clears_the_alarm() -> None:
    ports = Ports()
    watch = watcher(ports)
    watch.check_memory(1001)
    assert "1001 of 1000 bytes" in ports.alarms["memory"]
    watch.check_memory(1000)
    assert ports.alarms == {}


def test_disk_below_the_limit_raises_and_at_the_limit_clears_the_alarm() -> None:
    ports = Ports()
    watch = watcher(ports)
    watch.check_disk(499)
    assert "499 bytes free, limit 500" in ports.alarms["disk"]
    watch.check_disk(500)
    assert ports.alarms == {}


def test_pressure_rises_from_the_paging_point_to_the_watermark() -> None:
    assert [memory_pressure(used, 1000, 0.5) for used in (0, 500, 750, 1000, 2000)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_an_absolute_watermark_wins_over_the_share() -> None:
    assert memory_limit_bytes(MemorySection(high_watermark=0.5), 1000) == 500
    assert memory_limit_bytes(MemorySection(high_watermark=0.5, high_watermark_bytes=7), 1000) == 7


def test_the_disk_is_looked_at_more_often_the_fuller_it_is() -> None:
    section = DiskSection(free_limit_bytes=50_000_000, check_interval_min_ms=100, check_interval_max_ms=10_000)
    assert disk_check_delay_ms(0, section) == 100
    assert disk_check_delay_ms(50_000_000 + 1_000 * 500_000, section) == 1_000
    assert disk_check_delay_ms(10**13, section) == 10_000


def test_resident_memory_is_measured() -> None:
    assert resident_bytes() > 1_000_000
