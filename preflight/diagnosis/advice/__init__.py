"""The rows of `preflight.diagnosis.advice.table`, a module per topic, as those of `signatures`."""
