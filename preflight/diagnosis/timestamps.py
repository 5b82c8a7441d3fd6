"""Times of log lines as seconds on one scale, so that lines of several logs can be put in order. Pure."""

from preflight import regex as re

_CLOCK = r"(?P<hour>[0-2]?\d):(?P<minute>[0-5]\d):(?P<second>[0-6]\d(?:[.,]\d{1,9})?)"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The year is not read: glog has none.
_FORMS = tuple(
    re.compile(form + _CLOCK)
    for form in (
        r"(?<!\d)\d{4}[-/](?P<month>[01]?\d)[-/](?P<day>[0-3]?\d)[T_ ]+",  # ISO, logging, elastic's box
        r"[IWEF](?P<month>[01]\d)(?P<day>[0-3]\d) ",  # glog: torch, NCCL watchdog
        r"(?<!\d)(?P<month>[01]\d)/(?P<day>[0-3]\d)(?:/\d{4})? ",  # transformers, mmengine
        r"\b(?P<name>" + "|".join(_MONTHS) + r") +(?P<day>[0-3]?\d)(?:,? \d{4})?(?: @)? ",  # syslog, Kibana
    )
)
_WITHIN = 120  # characters of a line in which a stamp is looked for
_HINT = re.compile(r"\d:\d\d:\d\d")


def parse_timestamp(text: str) -> float | None:
    """Return the seconds since the year started, as if every month had 31 days; None without a stamp."""
    head = text[:_WITHIN]
    if not _HINT.search(head):
        return None
    stamps = [found for form in _FORMS if (found := form.search(head))]
    return _seconds(min(stamps, key=re.Match.start)) if stamps else None


def _seconds(found: re.Match[str]) -> float:
    parts = found.groupdict()
    month = _MONTHS.index(parts["name"]) + 1 if parts.get("name") else int(parts["month"])
    days = month * 31 + int(parts["day"])
    return (
        days * 86400
        + int(parts["hour"]) * 3600
        + int(parts["minute"]) * 60
        + float(parts["second"].replace(",", "."))
    )
