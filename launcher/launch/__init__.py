"""A launch: preflight, plan, start of every node, and the loop that follows them."""
