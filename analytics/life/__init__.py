"""The life of one message, told from files of logs without Spark: a question about few messages needs no table of all.

wanted.py     what to look for, and what a message that was found is
    file_look.py  one file: records by kernel, bytes by search; only what was asked for reaches Python
    pursuit.py    from a message on to what became of it, and along dead letters to those it became
    life_story.py the same as rows, and as lines for people
    life_objects.py  and as objects for programs that show it
    node_reader.py   a process that a node starts beside itself, and that answers one question
"""
