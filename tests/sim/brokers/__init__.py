"""Simulation of clusters of whole brokers: everything of a node but sockets, TLS and asyncio."""
