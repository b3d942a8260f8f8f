"""A shovel carries messages of one source to one destination, until they are confirmed there.

definition      what the parameter says, checked
setup           what is declared on both sides before the first message
rewriting       headers and properties that a shovel sets
transit         what is on its way, and what the destination said of it
shovel          one shovel: connects, forwards, acknowledges, begins again
doors           its two ends: over AMQP 0-9-1, or in this node's broker
node_shovels    those of one node
"""
