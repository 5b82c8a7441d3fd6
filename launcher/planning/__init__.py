"""The plan of a launch: made before anything starts, and the record of it."""
