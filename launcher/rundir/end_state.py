"""How a node of a run ended, by the `exit` of its state.json, and how a whole run did. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

RunStatus: TypeAlias = Literal["running", "stopping", "waiting", "finished", "failed", "stopped", "lost"]
_FAILED = re.compile("failed|killed|hung|ended by signal")
_WORST: tuple[RunStatus, ...] = ("running", "stopping", "waiting", "lost", "failed", "stopped", "finished")


def condition_after(end: Mapping[str, Any]) -> RunStatus:
    """Return what a node has come to, by the `exit` of its state.json."""
    why = str(end.get("why") or "")
    if why and end.get("requested"):
        return "stopped"  # whatever its ranks made of SIGTERM
    codes = (end.get("ranks") or {}).values()
    if any(code for code in codes if code not in (-15, -9)):
        return "failed"
    if why:
        return "failed" if _FAILED.search(why) else "stopped"
    return "failed" if end.get("launcher_code") else "finished"


def explain_end(end: Mapping[str, Any]) -> str:
    """Return why a node ended: its supervisor's reason, else its exit codes; "" when it ended well."""
    if end.get("why"):
        return str(end["why"])
    for rank, code in (end.get("ranks") or {}).items():
        if isinstance(code, int) and code not in (0, -15):
            return f"rank {rank} " + (f"signal {-code}" if code < 0 else f"exit {code}")
    code = end.get("launcher_code")
    return f"the launcher ended with code {code}" if code else ""


def describe_end(condition: str, why: str) -> str:
    """Return a condition with its reason."""
    if why.startswith(condition):
        return why
    return f"{condition}: {why}" if why else condition


def summarize_ends(ends: Iterable[Mapping[str, Any]]) -> tuple[RunStatus, str]:
    """Return the worst that became of any node, and why: the reason of the first that came to that."""
    ordered = sorted(ends, key=lambda end: float(end.get("since") or 0.0))
    found = {condition_after(end) for end in ordered}
    worst: RunStatus = next((condition for condition in _WORST if condition in found), "lost")
    whys = (explain_end(end) for end in ordered if condition_after(end) == worst)
    return worst, next((why for why in whys if why), "")
