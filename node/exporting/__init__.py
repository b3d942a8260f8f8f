"""The log of a running node for readers elsewhere: which files there are, the files, and their records as rows.

    log_listing.py         which files there are, and how much of each is durable
    withheld_contents.py   records without the contents of messages, sealed anew
    file_feed.py           a file as pieces of bytes, as it is or with contents withheld
    log_rows.py            records as rows; catalog_rows.py of the log of what is declared; queue_rows.py of one queue
    transfer.py            one file for one receiver, who may have a part of it
    pace.py                how fast: readers must not be felt by clients
    log_export.py          the driver: reads beside the event loop, for front/grpc/log_service.py

Nothing is locked, written or held back: a file that the node deletes meanwhile is reported as gone. See docs/history.md.
"""
