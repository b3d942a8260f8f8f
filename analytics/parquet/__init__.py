"""Logs as Parquet, for any tool that reads it: `leveret-analytics convert DIR`, again and again as the logs grow.

    DIR/lives, events         what became of each message, and each thing that happened to it; by bucket of the queue
    DIR/queues, actors        what the numbers in these mean
    DIR/coverage.json         what all of this stands on
    DIR/raw                   what the logs said of queues, without contents: what the tables are made of
    DIR/_steps.jsonl          what has been converted: conversion_log.py

A step reads what the logs have beyond the step before, adds it to `raw`, and makes the tables anew in the buckets that it
touches: the fate of a message that was waiting is another one now. So each life is there once.

conversion_log.py  which files have been read up to where, and how a step takes effect at once
    raw_files.py       from files of logs to `raw`
    bucket_tables.py   from `raw` to `lives` and `events`, a bucket in one task
    convert.py         a step
    followed.py        a step that is a batch of a stream: logs that are being written
    follow_query.py    the stream
"""
