"""Who declared, deleted or changed what: the entries of the metadata log, told for people. Needs neither Spark nor Java.

    command_look.py    one pass over a file, for its entries and what explains them
    command_results.py whether commands were carried out or refused
    audit_trail.py     of all files one trail: which copy of an entry counts, and who gave it

Of several copies of an entry one counts; what a later leader has replaced is not told.
"""
