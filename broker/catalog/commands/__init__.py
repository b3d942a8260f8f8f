"""Commands: every change to what is declared, as the metadata log has it.

catalog_commands.py   each change as plain data, and its bytes
command_types.py      whether what another node submits is of the types that its class declares
metadata_entry.py     a command in the log, with who submitted it and for whom
metadata.py           the port by which commands are submitted
"""
