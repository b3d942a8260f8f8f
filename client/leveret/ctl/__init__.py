"""leveretctl, the command line of operators: a program on top of the client, and nothing that it could not do."""
