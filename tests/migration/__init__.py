"""A rehearsal of docs/migrating.md: everything moves from a genuine RabbitMQ to a node while clients work."""
