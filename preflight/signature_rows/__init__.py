"""The rows of `preflight.signatures`, a module per topic."""
