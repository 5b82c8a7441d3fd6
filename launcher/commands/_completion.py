"""What the shell completes beside commands and options: hosts, run configs, runs, codes and files.

Completion prints no error into the line that a person is typing: what cannot be read completes to nothing.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import click

from preflight.errors import GpulaunchError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completion: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"


def _completion(names: Callable[[], Iterable[str]]) -> Completion:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while a person types

        del ctx, param
        head, comma, begun = incomplete.rpartition(",")  # l40s-01,l40s-02
        try:
            found = sorted({name for name in names() if name.startswith(begun)})
        except (GpulaunchError, OSError):
            return []
        return [CompletionItem(f"{head}{comma}{name}") for name in found]

    return complete


def _hosts() -> Iterable[str]:
    from launcher.config.inventory import ALL, LOCALHOST  # noqa: PLC0415 - only while a person types
    from launcher.config.inventory_reader import load_inventory  # noqa: PLC0415 - only while a person types

    loaded = load_inventory(None)
    return (*loaded.hosts, *loaded.groups, LOCALHOST, ALL)


def _configs() -> Iterable[str]:
    from launcher.config.config_search import list_configs  # noqa: PLC0415

    return list_configs()


def _runs() -> Iterable[str]:
    from launcher.planning.run_record import records_dir  # noqa: PLC0415
    from launcher.rundir.run_id import LAST  # noqa: PLC0415

    return (LAST, *(path.stem for path in records_dir().glob("*.json")))


def _findings() -> Iterable[str]:
    """Return what --ignore takes."""
    from launcher.error_codes import list_host_codes  # noqa: PLC0415
    from preflight.checks.explain import list_codes  # noqa: PLC0415

    return list_codes(list_host_codes())


def list_codes() -> Iterable[str]:
    """Return every code of a finding, of a cause and of a host that could not be used."""
    from launcher.follow.guard_codes import GUARD_CODES  # noqa: PLC0415
    from preflight.diagnosis.explain import list_signature_codes  # noqa: PLC0415
    from preflight.script.rules.all_rules import list_rule_codes  # noqa: PLC0415

    return (*_findings(), *GUARD_CODES, *list_rule_codes(), *list_signature_codes())


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell complete local files, as it does for words of a script."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only while a person types

    del ctx, param
    return [CompletionItem(incomplete, type="file")]


def complete_logs(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete runs, or local files where no run has this start."""
    return [*complete_files(ctx, param, incomplete), *complete_runs(ctx, param, incomplete)]


def complete_words(key: str) -> Completion:
    """Complete the words that a key of a run config takes, for the option that stands for it."""

    def words() -> Iterable[str]:
        from launcher.config.schema import CONFIG_KEYS  # noqa: PLC0415
        from launcher.config.value_types import Keyword  # noqa: PLC0415

        kind = next((each.kind for each in CONFIG_KEYS if each.name == key), None)
        if kind is None or isinstance(kind, Keyword):
            return () if kind is None else kind.words
        first, *_ = kind.schema().get("anyOf", [{}])  # words, of what may be a number or a list, too
        return tuple(first.get("enum", ()))

    return _completion(words)


complete_hosts = _completion(_hosts)
complete_configs = _completion(_configs)
complete_runs = _completion(_runs)
complete_codes = _completion(list_codes)
complete_findings = _completion(_findings)
