"""Logins: how passwords are kept, and how they are checked without holding up the node.

auth.py             a user's password, and what is remembered of those that were right
login_checks.py     checks beside the event loop, in a fair order; tokens (node/tokens/) go through it, too
password_hashes.py  hashes, as records keep them and as definitions name them
"""
