"""One page with what all questions answer, for people who were not there: `leveret-analytics report --html FILE`.

charts.py           figures as SVG, by hand: no library, no script
page.py             coverage, charts and tables as one HTML file that asks nobody for anything
page_style.py       how that looks
traffic.py          what came and went over time, from sums of a few hundred spans
report_contents.py  what the page shows
report_figures.py   what Spark gathers for that
"""
