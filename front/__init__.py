"""The protocols that clients speak. A front turns its protocol into calls of broker.session and back, seeing nothing below.

sockets/                          sockets of clients, whatever they speak
amqp/, stream/, grpc/, web/       one protocol each

What lies flat serves those that administer, gRPC and HTTP: the ports to the node (node_ports.py), and what both answer alike,
as shovels of the whole cluster, definitions, redrives, replays and lives of messages.
"""
