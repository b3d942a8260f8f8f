"""Who may come in, from where, and what is written down of it."""
