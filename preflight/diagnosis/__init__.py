"""From a dead run's log to what killed it. Pure: text in, causes out."""
