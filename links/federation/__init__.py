"""Federation: what is published to an exchange or waits in a queue of another broker comes here where it is wanted.

upstream            what the parameters federation-upstream and federation-upstream-set say, checked
wanted_links        which links there should be, by policies
hops                headers that say where a message has been, and where a binding comes from
in_flight           what was published here and is not confirmed, by what the upstream calls it
federation_link     one link: connects, passes messages on, acknowledges, begins again
exchange_setup      what an exchange link declares at its upstream
copied_bindings     which bindings of a federated exchange its upstream is to have
exchange_link       an exchange link: its bindings go up, messages come down
queue_link          a queue link: takes messages while consumers here wait for some
amqp_upstream       the upstream end of a link, over AMQP 0-9-1
local_exit          the downstream end: a session of the broker on this node
link_maker          makes links with both ends
node_federation     the links of one node
"""
