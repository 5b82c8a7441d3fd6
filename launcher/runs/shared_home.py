"""Runs of hosts that were not asked, reported by hosts that share a home with them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.rundir.run_id import is_run_id

_MOST = 1000


def runs_of_other_hosts(answers: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return {host: run ids} of hosts whose own answers are not among these; how they are is theirs to say.

    A host that reports runs under its own name means a container of it, or another host that has its name.
    """
    all_answers = list(answers)
    answering = {str(answer.get("host") or "") for answer in all_answers}
    found: dict[str, set[str]] = {}
    for answer in all_answers:
        for host, run_ids in (answer.get("other_hosts") or {}).items():
            if host not in answering:
                found.setdefault(host, set()).update(run_ids)
            elif host == answer.get("host"):
                name = f"{host} (a container, or another host of this name)"
                found.setdefault(name, set()).update(run_ids)
    names = {host: sorted(filter(is_run_id, run_ids))[:_MOST] for host, run_ids in sorted(found.items())}
    return {host: tuple(run_ids) for host, run_ids in names.items() if run_ids}
