"""The codes of hosts that could not be used: one per class of launcher.errors."""

import inspect

from launcher.errors import HostError


def host_codes() -> dict[str, type[HostError]]:
    """Return {code: error class}, ordered; a class without a code of its own goes by its parent's."""
    found: dict[str, type[HostError]] = {}
    todo: list[type[HostError]] = [HostError]
    while todo:
        kind = todo.pop(0)
        found.setdefault(kind.code, kind)
        todo += kind.__subclasses__()
    return dict(sorted(found.items()))


def explain_host(code: str, kind: type[HostError]) -> str:
    """Return what a code of an unusable host means."""
    return f"{code}: {inspect.getdoc(kind) or kind.__name__}\n(critical, the host could not be judged)\n"
