"""A preflight of hosts, and its findings as text, JSON and pages."""
