"""How things look as JSON: field names that tools know from RabbitMQ's management API. What is read back is named alike.

declared_views.py    what is declared
client_views.py      connections, channels, consumers
node_views.py        nodes
message_stats.py     what was counted, and the rates beside it
message_json.py      a message's properties
binding_keys.py      the name of one binding of many, in a path
"""
