"""A duration on a command line."""

import math
from typing import Any

import click


class Seconds(click.FloatRange):
    """A number of seconds within bounds. NaN is none: compared with any time it is never over."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises click.BadParameter."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds
