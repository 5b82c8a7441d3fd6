"""What the command line says instead of a run config's file."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from launcher.config.host_ranges import parse_ssh_target, split_ranges
from launcher.config.schema import CONFIG_KEYS
from launcher.config.value_types import boolean
from launcher.config.yaml_tree import ConfigIssues, YamlNode
from preflight.frozen import dataclass

TypedKey: TypeAlias = tuple[str, str]  # an option, and the text that was typed behind it


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the file. Empty values leave the file's."""

    key_values: tuple[str, ...] = ()  # "key=value", dotted keys, YAML values
    hosts: tuple[str, ...] = ()
    hosts_from: str = "--hosts"  # where they were typed
    gpus: str = ""
    keys: Mapping[str, TypedKey] = field(default_factory=dict)  # by dotted key, where its option is typed
    sync: bool = False  # the tree travels, as the file's own `sync:` says where it has one
    launch: int | None = None  # which of the commands of `command:`
    extra_args: tuple[str, ...] = ()  # after --; appended to args
    is_plan: bool = False  # only a plan is made of it: values that the command lacks may lack
    # A job of Slurm will read it, and gives the command variables that are not set locally.
    for_job: bool = False

    def sets(self, name: str) -> bool:
        """Whether `--set NAME=...` is typed."""
        return any(text.partition("=")[0].strip() == name for text in self.key_values)


def apply_overrides(root: YamlNode, overrides: Overrides, mistakes: ConfigIssues) -> YamlNode:
    """Return the tree of a file with the keys that the command line sets."""
    for key, item in _typed_keys(overrides, mistakes):
        root = _put(root, key, item, mistakes)
    entry = root.value.get("sync") if isinstance(root.value, dict) else None
    if overrides.sync and not (entry is not None and isinstance(entry.value, dict)):
        root = _put(root, "sync", YamlNode("true", "--sync", key="sync"), mistakes)
    return root


def _typed_keys(overrides: Overrides, mistakes: ConfigIssues) -> Iterator[tuple[str, YamlNode]]:
    """Yield the keys that the command line sets, in the order in which the later wins."""
    for text in overrides.key_values:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            mistakes.add(YamlNode(None, "--set"), f'expected key=value, got "{text}"')
            continue
        yield key.strip(), _parse(value, f"--set {key.strip()}", mistakes)
    if overrides.hosts:
        typed = overrides.hosts_from
        words = tuple(YamlNode(part, typed, key="hosts") for word in overrides.hosts for part in _words(word))
        if not words:
            mistakes.add(YamlNode(None, typed), f'expected names of hosts, got "{",".join(overrides.hosts)}"')
        yield "hosts", YamlNode(words, typed, key="hosts")
    if overrides.gpus:
        yield "gpus", _parse(overrides.gpus, "--gpus", mistakes)
    for key, (option, text) in overrides.keys.items():
        yield key, YamlNode(text, option)
    if overrides.launch is not None:
        yield "launch", YamlNode(str(overrides.launch), "--launch")


def _words(word: str) -> list[str]:
    """Return the host words of one --hosts. Raises BadInput where they are not separated by commas."""
    parts = split_ranges(word)
    for part in parts:
        if " " in part:
            parse_ssh_target(part)  # says what to write
    return parts


def _parse(text: str, source: str, mistakes: ConfigIssues) -> YamlNode:
    from launcher.config.yaml_reader import parse_text  # noqa: PLC0415 - yaml is a tenth of a run's imports

    return parse_text(text, source, mistakes, in_file=False)


def _put(root: YamlNode, dotted: str, value: YamlNode, mistakes: ConfigIssues) -> YamlNode:
    """Return the tree with the value at a dotted key in place of what the file says."""
    name, dot, rest = dotted.partition(".")
    entries = root.value if isinstance(root.value, dict) else {}
    key = f"{root.key}.{name}" if root.key else name
    if dot and rest:
        below = entries.get(name, YamlNode({}, value.source, key=key))
        if key == "sync" and isinstance(below.value, str) and boolean().read(below, ConfigIssues()):
            below = replace(below, value={})  # `sync: true`: all defaults
        if not isinstance(below.value, dict | None):
            mistakes.add(replace(value, key=dotted), f"{key} has no keys of its own")
            return root
        return replace(root, value={**entries, name: _put(below, rest, value, mistakes)})
    if value.value is None and name in {row.name for row in CONFIG_KEYS}:  # `--set env=` means: not set
        return replace(root, value={each: item for each, item in entries.items() if each != name})
    return replace(root, value={**entries, name: replace(value, key=key)})
