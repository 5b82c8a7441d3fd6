"""`sync:` of a run config: which tree goes where."""

from launcher.config.value_types import (
    HOST_PATH,
    Custom,
    Field,
    ListOf,
    ScalarOrMap,
    Section,
    Text,
    boolean,
    integer,
)
from preflight.frozen import dataclass

MAX_MIB = 512


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """What `sync:` says; `true` is all defaults."""

    source: str = "."  # local, relative to the current directory
    to: str = ""  # on the hosts; "" = the job's working directory
    exclude: tuple[str, ...] = ()  # patterns as in .gitignore
    include: tuple[str, ...] = ()  # paths in the tree, whatever .gitignore says
    delete: bool = False  # remove what a former sync sent and the tree no longer has
    max_mib: int = MAX_MIB


# fmt: off
SYNC_KEYS: tuple[Field, ...] = (
    Field("from", Text("a local directory"), "The local tree, relative to the current directory.", ".", "."),
    Field(
        "to", HOST_PATH,
        "Directory on the host that gets the tree, and that ranks start in without a workdir; else workdir.",
        "~/project"),
    Field("exclude", ListOf(Text("a pattern as in .gitignore"), allow_scalar=True, has_blanks=False),
          "Left out besides what .gitignore says.", '["*.ckpt", "data/"]'),
    Field("include", ListOf(Text("a path in the tree"), allow_scalar=True),
          "Files and directories that are sent although .gitignore leaves them out.", "data/"),
    Field("delete", boolean(), "Remove from the host what a former sync sent and the tree no longer has.",
          "true", "false"),
    Field("max_mib", integer(1, 10**7, in_mib=True), "A larger tree is a mistake, in MiB.", "2048",
          str(MAX_MIB)),
)
# fmt: on
_MAPPING = "a mapping of from, to, exclude, include, delete, max_mib"
_FLAG = boolean(f"true or false, or {_MAPPING}")
SYNC = ScalarOrMap(
    Custom("true or false", lambda item: SyncOptions() if _FLAG.parse(item) else None, _FLAG.schema),
    Section(
        SYNC_KEYS,
        _MAPPING,
        make=lambda **data: SyncOptions(
            **{("source" if name == "from" else name): data[name] for name in data}
        ),
    ),
)
"""True, false, or a mapping of SYNC_KEYS. False is as if the key were absent."""
