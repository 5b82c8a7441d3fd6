"""The deep checks inside a rank: GPUs and links measured, reported step by step."""
