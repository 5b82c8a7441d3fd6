"""`sync:` of a run config: which tree goes where."""

from typing import Any

from launcher.config.fields import Boolean, Field, Integer, ListOf, Schema, Section, Text
from launcher.config.yaml_tree import ConfigIssues, YamlNode
from preflight.frozen import dataclass

MAX_MIB = 512


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """What `sync:` says; `true` is all defaults."""

    source: str = "."  # local, relative to the current directory
    to: str = ""  # on the hosts; "" = the job's working directory
    exclude: tuple[str, ...] = ()  # patterns as in .gitignore
    delete: bool = False  # remove what a former sync sent and the tree no longer has
    max_mib: int = MAX_MIB


SYNC_KEYS: tuple[Field, ...] = (
    Field("from", Text("a local directory"), "The local tree, relative to the current directory.", ".", "."),
    Field(
        "to",
        Text("a path on the host"),
        "Directory on the host that gets the tree; else workdir.",
        "~/project",
    ),
    Field(
        "exclude",
        ListOf(Text("a pattern as in .gitignore"), allow_scalar=True),
        "Left out besides what .gitignore says.",
        '["*.ckpt", "data/"]',
    ),
    Field(
        "delete",
        Boolean(),
        "Remove from the host what a former sync sent and the tree no longer has.",
        "true",
        "false",
    ),
    Field("max_mib", Integer(1, 10**7), "A larger tree is a mistake, in MiB.", "2048", str(MAX_MIB)),
)


@dataclass(frozen=True, slots=True)
class SyncField:
    """True, false, or a mapping of SYNC_KEYS. False is as if the key were absent."""

    expected: str = "true or false, or a mapping of from, to, exclude, delete, max_mib"

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> SyncOptions | None:
        """Return the spec; None when nothing is to be sent, or after a mistake."""
        if isinstance(item.value, str):
            flag = Boolean(self.expected).read(item, mistakes)
            return SyncOptions() if flag else None
        if not isinstance(item.value, dict):
            mistakes.expected(item, self.expected)
            return None
        data: dict[str, Any] = Section(SYNC_KEYS).read(item, mistakes) or {}
        data = {("source" if name == "from" else name): value for name, value in data.items()}
        return SyncOptions(**data)

    def schema(self) -> Schema:
        """Return it as JSON Schema."""
        return {"anyOf": [{"type": "boolean"}, {**Section(SYNC_KEYS).schema(), "type": "object"}]}
