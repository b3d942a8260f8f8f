"""All that operators may ask of a node, by what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.operations.clients import Clients
from broker.operations.documents import Documents
from broker.operations.node_facts import NodePort
from broker.operations.parameters import Parameters
from broker.operations.policies import Policies
from broker.operations.queue_conversions import QueueConversions
from broker.operations.redrives import Redrives
from broker.operations.replays import Replays
from broker.operations.resources import Resources
from broker.operations.rights import Rights
from broker.operations.stream_admin import StreamAdmin
from broker.operations.stream_users import StreamUsers
from broker.operations.this_node import ThisNode
from broker.operations.users import Users
from broker.operations.vhosts import Vhosts

if TYPE_CHECKING:
    from broker.broker import Broker


class Operations:
    def __init__(self, broker: Broker, node: NodePort) -> None:
        self.this_node = ThisNode(broker, node)
        self.vhosts = Vhosts(broker)
        self.users = Users(broker, node)
        self.rights = Rights(broker)
        self.policies = Policies(broker)
        self.parameters = Parameters(broker)
        self.resources = Resources(broker)
        self.redrives = Redrives(broker)
        self.conversions = QueueConversions(broker)
        self.replays = Replays(broker)
        self.clients = Clients(broker)
        self.stream_admin = StreamAdmin(broker)
        self.stream_users = StreamUsers(broker)
        self.documents = Documents(broker, node, self.parameters.fault_of)
