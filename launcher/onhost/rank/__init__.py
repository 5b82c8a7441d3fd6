"""What the program rank.py is made of: what it does before, beside and after the user's script."""
