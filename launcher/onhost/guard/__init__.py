"""What guard.py is made of: a core that listens to torch, and a module per kind of look (check_table.py)."""
