"""Trainings under the guard, a function each. `python -m tests.launcher.guard_trainings GUARD` runs them."""
