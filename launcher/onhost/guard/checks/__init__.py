"""What the guard looks at: a module per subject. table.py says when each looks."""
