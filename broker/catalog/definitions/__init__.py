"""Everything declared as one document in RabbitMQ's form: written, and read as commands.

definitions_writer.py   a catalog as a document
definitions_text.py     a document as JSON, entry by entry; definition_item.py reads the fields of an entry
definitions_reader.py   a document as commands, in the order in which they can be applied
definition_effects.py   what a command would change, for people, before it is carried out
"""
