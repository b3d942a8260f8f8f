"""Redrive: messages of a dead-letter queue go back to where they died, or to another exchange.

    order.py       which messages, how many, and where they go
    counts.py      what was found and moved, by cause
    forecast.py    a dry run: browses and counts, changes nothing
    redrive.py     gets a message, publishes it, and acknowledges it once its targets have confirmed

A message leaves the dead-letter queue only after it is safe elsewhere. A failure in between can leave it in both, never in
neither. Messages that are not wanted return to their places as if they had never been out.
"""
