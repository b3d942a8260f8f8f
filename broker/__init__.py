"""The broker's words and decisions: what is declared, where a message goes, who may do what, what is confirmed.

Nothing here waits, reads a clock or touches a file: time comes in as an argument, and whatever must become
durable or cross the network is asked of a port. Fronts come in through `broker.session`, kinds of queue stand
behind `broker.queue_type`, and everything declared is in `broker.catalog`.

Read in this order: message (what travels), session (the door), publish and route (where it goes), queue_type (the contract
of the three kinds), confirms and deliveries (who is owed an answer), turns (when all of that is passed on), catalog with
catalog_commands (what is declared).
"""
