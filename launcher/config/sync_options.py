"""`sync:` of a run config: which tree goes where."""

from typing import Any

from launcher.config.fields import Flag, Integer, Key, ListOf, Record, Schema, Text
from launcher.config.yaml_tree import Item, Mistakes
from preflight.frozen import dataclass

MAX_MIB = 512


@dataclass(frozen=True, slots=True)
class SyncSpec:
    """What `sync:` says; `true` is all defaults."""

    source: str = "."  # here, relative to the current directory
    to: str = ""  # on the hosts; "" = the job's working directory there
    exclude: tuple[str, ...] = ()  # patterns as in .gitignore
    delete: bool = False  # remove what a former sync put there and the tree has no more
    max_mib: int = MAX_MIB


SYNC_KEYS: tuple[Key, ...] = (
    Key("from", Text("a local directory"), "The local tree, relative to the current directory.", ".", "."),
    Key(
        "to",
        Text("a path on the host"),
        "Directory on the host that gets the tree; else workdir.",
        "~/project",
    ),
    Key(
        "exclude",
        ListOf(Text("a pattern as in .gitignore"), lone=True),
        "Left out besides what .gitignore says.",
        '["*.ckpt", "data/"]',
    ),
    Key(
        "delete",
        Flag(),
        "Remove from the host what a former sync sent and the tree no longer has.",
        "true",
        "false",
    ),
    Key("max_mib", Integer(1, 10**7), "A larger tree is a mistake, in MiB.", "2048", str(MAX_MIB)),
)


@dataclass(frozen=True, slots=True)
class SyncKind:
    """True, false, or a mapping of SYNC_KEYS. False is as if the key were not there."""

    expected: str = "true or false, or a mapping of from, to, exclude, delete, max_mib"

    def read(self, item: Item, mistakes: Mistakes) -> SyncSpec | None:
        """Return the spec; None when nothing is to be sent, or after a mistake."""
        if isinstance(item.value, str):
            flag = Flag(self.expected).read(item, mistakes)
            return SyncSpec() if flag else None
        if not isinstance(item.value, dict):
            mistakes.expected(item, self.expected)
            return None
        data: dict[str, Any] = Record(SYNC_KEYS).read(item, mistakes) or {}
        data = {("source" if name == "from" else name): value for name, value in data.items()}
        return SyncSpec(**data)

    def schema(self) -> Schema:
        """Return it as JSON Schema."""
        return {"anyOf": [{"type": "boolean"}, {**Record(SYNC_KEYS).schema(), "type": "object"}]}
