"""The files of classic queues: index segments, shared contents, and what keeps them small."""
