"""Checks of the guard, one module per subject. check_table.py lists when each one runs."""
