"""Processes of dead runs: classified, and selected for ending."""
