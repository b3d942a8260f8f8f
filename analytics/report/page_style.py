"""The style sheet of a report: light, and dark where the reader's system is. `c0` to `c8` are the colours of charts."""

from __future__ import annotations

from analytics.report.report_contents import OUTCOMES

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2128; --muted: #59636e; --line: #d8dee4; --box: #f6f8fa;
  --bad: #b3261e;
  --good: #17713a; --c0: #1f6feb; --c1: #c2410c; --c2: #a16207; --c3: #7c3aed; --c4: #6b7280; --c5: #9d5c2f;
  --c6: #0e7490; --c7: #94a3b8;
  --c8: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bg: #0f1419; --fg: #e3e8ee; --muted: #97a3b0; --line: #2c3540;
  --box: #171e26;
  --bad: #ff8f85; --good: #5fd38d; --c0: #6cb0ff; --c1: #ff9d5c; --c2: #e3bf4f; --c3: #bb9bff; --c4: #a2abb5;
  --c5: #d9a27c;
  --c6: #4cc9d9; --c7: #66758a; --c8: #ff8f85; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 0; }
p { margin: .25rem 0 .75rem; }
.muted, .nothing { color: var(--muted); }
.box { background: var(--box); border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem; }
.box dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
dt { color: var(--muted); }
dd { margin: 0; }
.verdict { font-weight: 600; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
th { color: var(--muted); font-weight: 600; overflow-wrap: normal; }
.n { text-align: right; }
svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
svg text { fill: var(--muted); font-size: 12px; }
.grid { stroke: var(--line); }
.tick-y, .name { text-anchor: end; }
.tick-x { text-anchor: middle; }
svg .name { fill: var(--fg); }
.line { fill: none; stroke-width: 2; }
.spot { fill: currentColor; fill-opacity: 0; stroke: none; }
.spot:hover { fill-opacity: 1; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; list-style: none; margin: .25rem 0 1rem; padding: 0;
  font-size: .85rem; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px;
  background: currentColor; }
"""
COLOURS = "".join(
    f".c{at} {{ color: var(--c{at}); }} rect.c{at} {{ fill: var(--c{at}); }} .line.c{at} {{ stroke: var(--c{at}); }}\n"
    for at in range(len(OUTCOMES))
)
