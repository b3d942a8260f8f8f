"""Paths about messages themselves: to publish, get and look at them, to have them come again, and what became of one."""
