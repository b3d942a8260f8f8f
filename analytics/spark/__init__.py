"""What runs on Spark, in one process or on a cluster: `local[2]` and `spark://HOST:PORT` are the same program.

    session.py   a Spark session, or one clear sentence about what is missing

Who imports a module of this folder needs the extra `analytics`: `pip install 'leveret-server[analytics]'`.
"""
