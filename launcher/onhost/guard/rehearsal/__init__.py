"""A rehearsal inside a rank: its steps, its measurements, and its output directory."""
