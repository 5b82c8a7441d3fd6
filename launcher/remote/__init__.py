"""Programs that run on hosts, seen from here: sent, started, answered."""
