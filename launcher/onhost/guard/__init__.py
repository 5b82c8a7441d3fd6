"""The guard in each rank: its hooks into torch, its checks (check_table.py), and its reports."""
