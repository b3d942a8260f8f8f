"""The way of a message: from an exchange to queues, also once it has died."""
