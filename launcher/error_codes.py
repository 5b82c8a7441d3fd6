"""The codes of hosts that could not be used: one per class of launcher.errors."""

import inspect
from collections.abc import Iterable

from launcher.errors import HOST_FIXES, BadInput, HostError


def list_host_codes() -> dict[str, type[HostError]]:
    """Return {code: error class}, ordered; a class without a code of its own goes by its parent's."""
    found: dict[str, type[HostError]] = {}
    todo: list[type[HostError]] = [HostError]
    while todo:
        kind = todo.pop(0)
        found.setdefault(kind.code, kind)
        todo += (each for each in kind.__subclasses__() if each.code != "interrupted")  # no check ends so
    return dict(sorted(found.items()))


def read_codes(words: Iterable[str]) -> frozenset[str]:
    """Return the codes that --ignore names. Raises BadInput: one that does not exist would ignore nothing."""
    from preflight.checks.explain import list_codes  # noqa: PLC0415 - the checks are loaded only where one is named

    codes = frozenset(code.strip().upper() for word in words for code in word.split(",") if code.strip())
    known = list_codes(list_host_codes()) if codes else frozenset[str]()
    unknown = sorted(codes - known)
    if unknown:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        near = get_close_matches(unknown[0], sorted(known), n=1, cutoff=0.6)
        fix = f"did you mean {near[0]}?" if near else "gpulaunch checks lists them"
        raise BadInput(f"--ignore: no check {', '.join(unknown)}", fix)
    return codes


def explain_host(code: str, kind: type[HostError]) -> str:
    """Return what a code of an unusable host means."""
    fix = f"\nFix: {HOST_FIXES[code]}\n" if code in HOST_FIXES else ""
    return f"{code}: {inspect.getdoc(kind) or kind.__name__}\n(critical, the host could not be judged)\n{fix}"
