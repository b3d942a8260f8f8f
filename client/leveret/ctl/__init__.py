"""leveretctl, the command line of operators: a program on top of the client, and nothing that it could not do.

A module is named for the noun of its commands, which `__main__.py` lists; messages/ has those about messages themselves, and
terminal/ what all commands have in common.
"""
