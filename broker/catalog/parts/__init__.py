"""What the catalog consists of: a part for each group of commands, with what they change.

catalog_part.py       what a part needs of the whole
catalog_users.py      users, and what they may do
catalog_policies.py   policies and parameters
catalog_nodes.py      nodes, and what goes with one; disk_lives.py which numbers a disk gets
namespace.py          what one virtual host holds: exchanges, queues and bindings
catalog_limits.py     how much of each there may be
"""
