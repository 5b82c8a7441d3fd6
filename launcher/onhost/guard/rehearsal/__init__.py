"""A rehearsal from inside a rank: its steps, what is measured of them, and where the script writes."""
