"""What reached no queue, and from whom, as nodes have counted it at `history.level = "full"`. Needs neither Spark nor Java.

count_look.py    one pass over a file, for its counts and whom they name
count_rows.py    the sums of all files
"""
