"""Message tracing: copies of what is published and delivered in a virtual host go to its exchange `amq.rabbitmq.trace`."""
