"""The process: reads the configuration, assembles one node bottom up, and runs it. Nobody imports this folder.

Read in this order: config (every option), kernel (what a node is), assemble (how it comes to files, links and fronts), main
(the command `leveret`), then what watches over a running node: alarms, metrics, logs.
"""
