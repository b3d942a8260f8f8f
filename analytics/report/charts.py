"""Charts as SVG inside of a page, whose style sheet has their colours: they look right in light and dark.

Texts come from clients, so all of them are escaped. Points and parts of bars say their values when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 760, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 28  # room around the lines
TICKS = 4
BAR_HEIGHT, BAR_STEP = 18, 26
LABEL_WIDTH, LABEL_CHARS = 220, 32
SPANS_S = (1, 2, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400)


class Series(NamedTuple):
    """One line: values at times in seconds since 1970, ascending."""

    name: str
    points: Sequence[tuple[int, float]]


class Bar(NamedTuple):
    """One row: the parts of it in the order in which the chart names them."""

    name: str
    parts: Sequence[float]


def number(value: float) -> str:
    """As people read it."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def clock(second: int, span: int) -> str:
    """A time, as exact as a window of `span` seconds needs it."""
    return datetime.fromtimestamp(second, UTC).strftime("%H:%M:%S" if span < 7_200 else "%m-%d %H:%M")


def line_chart(label: str, series: Sequence[Series]) -> str:
    """Lines over time, all from 0 on; a sentence where there is nothing to show."""
    points = [point for one in series for point in one.points]
    if not points:
        return nothing("There are no times to show this over.")
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    top = nice_ceiling(max(value for _, value in points))
    span = max(1, last - first)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - first) / span

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [_grid(y, top), _times(x, first, span)]
    for place, one in enumerate(series):
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in one.points)
        parts.append(f'<polyline class="line c{place}" points="{path}"/>')
        parts += [
            f'<circle class="spot c{place}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="5">'
            f"<title>{escape(one.name)}, {clock(at, span)}: {number(value)}</title></circle>"
            for at, value in one.points
        ]
    return _svg(label, HEIGHT, parts) + _legend([one.name for one in series])


def bar_chart(label: str, parts: Sequence[str], bars: Sequence[Bar]) -> str:
    """Rows of parts, all on one scale."""
    widest = max((sum(bar.parts) for bar in bars), default=0)
    if not widest:
        return nothing("There are no messages to show.")
    scale = (WIDTH - LABEL_WIDTH - 90) / widest
    drawn = []
    for row, bar in enumerate(bars):
        top = TOP + row * BAR_STEP
        drawn.append(f'<text class="name" x="{LABEL_WIDTH - 8}" y="{top + 13}">{escape(shortened(bar.name))}</text>')
        at = float(LABEL_WIDTH)
        for place, (part, value) in enumerate(zip(parts, bar.parts, strict=True)):
            if value:
                width = max(1.0, value * scale)
                drawn.append(
                    f'<rect class="c{place}" x="{at:.1f}" y="{top}" width="{width:.1f}" height="{BAR_HEIGHT}">'
                    f"<title>{escape(bar.name)}, {escape(part)}: {number(value)}</title></rect>"
                )
                at += width
        drawn.append(f'<text class="value" x="{at + 6:.1f}" y="{top + 13}">{number(sum(bar.parts))}</text>')
    used = [place for place in range(len(parts)) if any(bar.parts[place] for bar in bars)]
    return _svg(label, TOP + len(bars) * BAR_STEP + 4, drawn) + _legend(parts, used)


def nothing(why: str) -> str:
    return f'<p class="nothing">{escape(why)}</p>'


def shortened(name: str) -> str:
    return name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"


def nice_ceiling(value: float) -> float:
    """The least of 1, 2, 5, 10, 20, ... that is not below it."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _grid(y: Callable[[float], float], top: float) -> str:
    found = []
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        at = y(value)
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        found.append(f'<text class="tick-y" x="{LEFT - 6}" y="{at + 4:.1f}">{number(value)}</text>')
    return "".join(found)


def _times(x: Callable[[float], float], first: int, span: int) -> str:
    step = next((one for one in SPANS_S if span / one <= 6), SPANS_S[-1] * max(1, span // (6 * SPANS_S[-1])))
    found = []
    for at in range(-(-first // step) * step, first + span + 1, step):
        place = x(at)
        found.append(f'<text class="tick-x" x="{place:.1f}" y="{HEIGHT - 8}">{clock(at, span)}</text>')
    return "".join(found)


def _svg(label: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return f"{head}{''.join(parts)}</svg>"


def _legend(names: Sequence[str], used: Sequence[int] | None = None) -> str:
    shown = range(len(names)) if used is None else used
    keys = "".join(f'<li><span class="key c{place}"></span>{escape(names[place])}</li>' for place in shown)
    return f'<ul class="legend">{keys}</ul>'
