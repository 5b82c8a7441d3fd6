"""Facts of a host and of a script, as values; JSON in and out."""
