"""What watches over a running node, and tells of it: alarms, metrics.

alarms.py        when publishers are held, for memory or for room on the disk
descriptors.py   ceilings that fit into the descriptors of the process
loop_watch.py    turns of the event loop that took too long, and whose they were
disk_losses.py   what was lost on this node's disk, in sentences       halted_groups.py   groups that stand still for it
metrics.py       the figures of the node                               audit_metrics.py   of logins and changes
"""
