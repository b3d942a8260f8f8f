"""What a start makes of the files and the log."""
