"""What `gpulaunch explain CODE` says, and the page of each check: both are its docstring."""

from collections.abc import Iterable

from preflight.checks.check_docs import CheckText

_SCOPES = {
    "host": "about one host",
    "cluster": "about the hosts of a launch together",
    "deep": "measured by `preflight --deep`, `run --deep` and `bench`",
}


def list_codes(others: Iterable[str] = ()) -> frozenset[str]:
    """Return every code a finding can have; `others` are those of hosts that could not be used."""
    from preflight.checks.runner import load_checks  # noqa: PLC0415 - to explain one check takes its module alone

    return frozenset(load_checks()) | frozenset(others)


def render_heading(severity: str, scope: str, *, gate: bool, gpu_only: bool) -> str:
    """Return "critical, a gate, about one host, GPU jobs only"."""
    words = [severity]
    words += ["a gate: what cannot be checked stops a launch"] if gate else []
    words.append(_SCOPES[scope])
    words += ["jobs with GPUs only"] if gpu_only else []
    return ", ".join(words)


def render_explanation(check: CheckText) -> str:
    """Return the check's whole text for a terminal."""
    title, _, rest = check.text.partition("\n")
    about = render_heading(check.severity, check.scope, gate=check.gate, gpu_only=check.gpu_only)
    return f"{check.code}: {title}\n({about})\n\n{rest.strip()}\n"
