"""Questions that operators ask, each a command of `leveret-analytics`, on top of the table `lives`.

    answer.py     what a command says: columns, rows and whether it is known
    evidence.py   what the files themselves say beside the lives: which records are missing, what queues still have
    proof.py      whether every message that was taken is accounted for
    figures.py    a queue at a past second
    duplicates.py what came to a queue more than once; in SQL
    questions.py  which were lost, dropped or redelivered, and how long messages waited; in SQL

Rules are plain Python wherever lives alone decide; only what is in SQL, and what gathers rows, needs Spark.
"""
