"""The RabbitMQ stream protocol as bytes: frames and commands, of both sides.

command_keys.py      the numbers: keys of commands, response codes, kinds of offsets, versions
command_fields.py    the types of fields, each read and written
stream_commands.py   each command as a named tuple, and the table of their layouts
command_frames.py    where a frame ends; a frame as a command, and the reverse
publish_frame.py     the messages of a Publish frame, as runs

What is no frame of the protocol is `BadStreamFrame`, whatever is wrong with it.
"""
