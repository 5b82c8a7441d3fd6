"""`lint --fix`: what of the findings is mechanical, changed with LibCST."""
