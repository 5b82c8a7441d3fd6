"""Resource usage of a run on its host, and the signs of activity in it."""
