"""A run that failed is started again: whether, on which hosts, from which checkpoint."""
