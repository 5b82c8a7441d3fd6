"""How a node of a run ended, by the `exit` of its state.json, and how a whole run did. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from launcher.onhost.exit_status import describe_exit_code
from launcher.text import spell_duration

RunStatus: TypeAlias = Literal["running", "stopping", "waiting", "finished", "failed", "stopped", "lost"]
_STOPS = frozenset({"request", "signal", "no_client"})
"""What a supervisor names as the cause of an end that nothing has failed for
(launcher/onhost/supervisor/end_causes.py). After `exit`, which has no reason, the exit codes decide."""
WORST: tuple[RunStatus, ...] = ("running", "stopping", "waiting", "lost", "failed", "stopped", "finished")
LIVING = WORST[:3]

_LOSSES = {
    "host": "its host was restarted",
    "container": "its container was restarted, or its pod",
    "killed": "its supervisor and guardian were killed; its host was not restarted",
}


def classify_end(end: Mapping[str, Any]) -> RunStatus:
    """Return what a node has come to, by the `exit` of its state.json."""
    if str(end.get("cause")) in _STOPS:
        return "stopped"  # whatever its ranks made of SIGTERM
    failed = any(code not in (0, None, -15, -9) for code in (end.get("ranks") or {}).values())
    if end.get("why") or failed or end.get("launcher_code"):
        return "failed"
    return "finished"


def explain_end(end: Mapping[str, Any]) -> str:
    """Return why a node ended: its supervisor's reason, else its exit codes; "" when it ended well."""
    if end.get("why"):
        return str(end["why"])
    for rank, code in (end.get("ranks") or {}).items():
        if isinstance(code, int) and code not in (0, -15):
            return f"rank {rank} {describe_exit_code(code)}"
    code = end.get("launcher_code")
    return f"the launcher {describe_exit_code(code)}" if code else ""


def explain_loss(state: Mapping[str, Any]) -> str:
    """Return how a node was lost that has no end, by what its host says of it now."""
    return _LOSSES.get(
        str(state.get("loss")), "its supervisor is gone without a word; was the host restarted?"
    )


def explain_supervisor_end(code: object) -> str:
    """Return how a supervisor ended before its run, by its exit code, as its guardian says it."""
    if isinstance(code, int) and code >= 0:
        return "the supervisor failed (supervisor.log says why)"
    return "the supervisor was killed"


def explain_stall(stall: Mapping[str, Any]) -> str:
    """Return what a supervisor that lives and gives no heartbeat means, and what to do about one stopped."""
    words = (
        f"its supervisor has given no sign of life for {spell_duration(stall['silent_s'])}, and sees no end"
    )
    return f"{words}: it is stopped; on the host: kill -CONT {stall['pid']}" if stall["stopped"] else words


def describe_end(condition: str, why: str) -> str:
    """Return a condition with its reason."""
    if why.startswith(condition):
        return why
    return f"{condition}: {why}" if why else condition


def summarize_ends(ends: Iterable[Mapping[str, Any]]) -> tuple[RunStatus, str]:
    """Return the worst that became of any node, and why: the reason of the first that came to that."""
    ordered = sorted(ends, key=lambda end: float(end.get("since") or 0.0))
    found = {classify_end(end) for end in ordered}
    worst: RunStatus = next((condition for condition in WORST if condition in found), "lost")
    whys = (explain_end(end) for end in ordered if classify_end(end) == worst)
    return worst, next((why for why in whys if why), "")
