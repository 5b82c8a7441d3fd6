"""How busy a rank's GPU was while it stepped: samples of its host, laid over the time of its steps. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from launcher.rundir.usage_series import RankSeries


def calculate_gpu_use(series: RankSeries, measured: Mapping[str, Any], clock_offset_s: float) -> float | None:
    """Return the mean percentage between the ends of the first and the last step; None: no sample in that
    time.

    `measured` is the guard's; its times are of the host's clock, which `clock_offset_s` brings to ours.
    """
    span = measured.get("stepping")
    if not isinstance(span, list) or len(span) != 2:
        return None
    begin, end = (float(at) + clock_offset_s for at in span)
    inside = [
        percent
        for at, percent in zip(series.at, series.values["busy"], strict=True)
        if begin <= at <= end and math.isfinite(percent)
    ]
    return sum(inside) / len(inside) if inside else None
