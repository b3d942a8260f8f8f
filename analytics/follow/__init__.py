"""What happens in queues now, from the logs that running nodes write.

    log_tail.py       what one node's log has had since it was looked at last
    queue_rates.py    of several nodes' logs what came to each queue and left it, second by second
    follow_command.py `leveret-analytics follow`
    log_positions.py  how far logs were read and are durable, and what lies between two positions: for who goes on after a stop
    range_pieces.py   a part of one file between two positions

None of it needs Spark or Java; what does is analytics/spark/stream_source.py. Rates leave out what was there before.
"""
