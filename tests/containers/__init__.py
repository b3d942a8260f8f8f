"""Nodes in containers, begun by deploy/compose.yaml: an engine to run them on, their image, and clusters of them.

make test-containers                      python -m tests.containers [COMMAND...]
make test-spark-containers                python -m tests.containers --spark [COMMAND...]
"""
