"""Names of runs: one form, made in one place and known again in one place. A host's word must have it."""

import os
import time
from collections.abc import Iterable

from preflight import regex as re

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_JOB_ID = re.compile(r"\d+(?:_\d+)?", re.ASCII)
_CHANCE = re.compile(r"[0-9a-f]{6}", re.ASCII)
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}"
_FORM = re.compile(_NAME + r"-\d{8}-\d{6}-[0-9a-f]{6}", re.ASCII)
_STAMP = "%Y%m%d-%H%M%S"
_DAY_S = 86400.0
LAST = "last"  # what one types for the newest run
RUN_NAME_RULE = "at most 40 letters, digits and _ . - that neither start nor end with . or -"


def is_run_name(word: str) -> bool:
    """Return whether `make_run_id` puts a name into the id as it is."""
    return re.fullmatch(_NAME, word, re.ASCII) is not None and word == word.rstrip("-.")


def make_run_id(name: str, earlier: Iterable[str] = ()) -> str:
    """Return a name for a run: what, when, and enough chance for two in one second.

    It sorts behind the `earlier` ids of the last day, also after the clock was set back, as in autumn.
    """
    safe = _UNSAFE.sub("-", name).strip("-.")[:40] or "run"
    chance = os.urandom(3).hex()
    while chance.isdecimal():  # it names the run too, and digits alone are the id of a Slurm job
        chance = os.urandom(3).hex()
    return f"{safe}-{_stamp(time.time(), earlier)}-{chance}"


def _stamp(now: float, earlier: Iterable[str]) -> str:
    stamp, tomorrow = (time.strftime(_STAMP, time.localtime(at)) for at in (now, now + _DAY_S))
    latest = max((each for each in map(format_start, earlier) if stamp <= each < tomorrow), default="")
    if not latest:
        return stamp
    from calendar import timegm  # noqa: PLC0415 - few launches need it

    try:
        following = timegm(time.strptime(latest, _STAMP)) + 1  # as digits: autumn has one hour twice
    except ValueError:
        return stamp
    return time.strftime(_STAMP, time.gmtime(following))


def is_run_id(word: object) -> bool:
    """Return whether it has the form of a run's name: a plain name of a directory, and of no module."""
    return isinstance(word, str) and _FORM.fullmatch(word) is not None


def is_job_id(word: str) -> bool:
    """Return whether a word can only be the id of a Slurm job: 17, or 17_3 of a task of an array."""
    return _JOB_ID.fullmatch(word) is not None


def is_run_suffix(word: str) -> bool:
    """Return whether a word may be the last part of a run's name, which chance alone makes unique."""
    return _CHANCE.fullmatch(word) is not None


def names_run(word: str, run_id: str) -> bool:
    """Return whether a word means a run: its name, the first characters of it, or its last part."""
    return run_id.startswith(word) or (is_run_suffix(word) and run_id.endswith(f"-{word}"))


def run_name(run_id: str) -> str:
    """Return the name that a run was given, the first part of its id; "" for an id of another form."""
    return "-".join(run_id.split("-")[:-3]) if is_run_id(run_id) else ""


def format_start(run_id: str) -> str:
    """Return when a run was started, by its name, as text that sorts; "" for a name of another form."""
    return "-".join(run_id.split("-")[-3:-1]) if is_run_id(run_id) else ""


def parse_earliest_start(run_id: str) -> float:
    """Return the earliest time that the start in a run's name can mean: its time zone is not known."""
    from calendar import timegm  # noqa: PLC0415 - as above

    try:
        return timegm(time.strptime(format_start(run_id), _STAMP)) - _DAY_S
    except ValueError:
        return 0.0
