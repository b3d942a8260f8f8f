"""Durability against real ends: kill -9 of a real node, and power cuts under a real file system."""
