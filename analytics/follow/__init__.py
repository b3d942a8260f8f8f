"""What happens in queues now, second by second, from the logs that running nodes write. Needs neither Spark nor Java.

    log_tail.py       what one node's log has had since it was looked at last
    queue_rates.py    of several nodes' logs what came to each queue and left it

What was there before is not counted.
"""
