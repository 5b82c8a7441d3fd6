"""A preflight as one HTML file: results in, text out."""
