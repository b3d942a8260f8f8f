"""Names for what records speak of by number, so that a file of the log explains itself."""
