"""Run as a module from the folder above its package, which has another project's package in `src` beside it."""
# target: capability=8.0 processes=4

from parts.places import settle
from tool.training.steps import place

place()
settle()
