"""What all commands have in common: how they are typed and completed, run and answered, and with which code they end."""
