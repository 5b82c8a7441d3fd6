"""What a run uses on its host, and what in that shows that somebody works."""
