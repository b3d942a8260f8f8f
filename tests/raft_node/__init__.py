"""A process with members of the register machine's groups: to run, measure and break the engine on real disks and networks."""
