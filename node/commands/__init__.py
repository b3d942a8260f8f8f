"""Commands of `leveret` beside `serve`: doctor, leftovers, a cluster on this machine, surviving the loss of all others."""
