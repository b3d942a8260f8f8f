"""The services of proto/leveret/v1 on a node: publishing, consuming, topology, streams, administration.

Read server (what listens, and its limits), auth (who is calling, before anything else), call (what every service needs),
stream (the life of a bidirectional stream), then the services (`*_service.py`). convert holds the values, describe what
listings show.
"""
