"""Programs that run on hosts, seen from the client: sent, started, answered."""
