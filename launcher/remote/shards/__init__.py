"""Many hosts asked by several processes: one interpreter's CPU is the bound of what one client reaches."""
