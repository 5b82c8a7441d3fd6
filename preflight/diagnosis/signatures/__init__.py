"""The rows of `preflight.diagnosis.signatures.table`, a module per topic."""
