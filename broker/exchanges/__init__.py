"""The kinds of exchange: what is bound, and what a message matches."""
