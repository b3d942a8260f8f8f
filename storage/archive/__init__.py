"""Files of the log that nothing needs any more, kept for whoever asks later what happened.

    archive_window.py  how long and how much                summary.py     what a file holds, beside it
    archive.py         moves files in, deletes the oldest   roomy_disk.py  the archive gives way before a disk counts as full

A start never reads it, and no promise rests on it. See docs/history.md.
"""
