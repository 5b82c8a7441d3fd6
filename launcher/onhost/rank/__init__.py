"""Parts of the program rank.py: its actions before, beside and after the user's script."""
