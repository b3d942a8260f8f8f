"""Node to node: who may call, how bytes travel between two nodes, and the requests that pass over a link.

From the bottom: frames, handshake, socket; link and dialer keep one connection to each other node; server and side are what
others call; calls carries requests and answers by topic. peer_pb2 is generated from proto/node/peers (`make proto`)."""
