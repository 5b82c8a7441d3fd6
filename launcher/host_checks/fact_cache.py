"""Facts kept for `--max-age`: a file for each host in the user's state directory, for this user only.

A file is found by how its host is reached and with which Python. That it is about the same machine is proven
by the boot id, which no two machines share. What is in a file that is not one of ours is nothing.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.local.home import user_state_dir
from launcher.local.safe_paths import read_own_file, write_below
from launcher.remote.earlier_facts import EarlierFacts, select_reusable_parts, select_young_part
from launcher.safe_json import loads
from launcher.terminal.json_text import lay_out_json
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode

_KEPT_S = 2 * 86400.0  # --max-age is a day at most
_LARGEST = 1 << 20


class FactCache:
    """What is known of hosts, no part of it older than `max_age_s`."""

    def __init__(self, max_age_s: float, directory: Path | None = None) -> None:
        self.problem = ""  # why facts could not be kept
        self._max_age_s = max_age_s
        self._directory = directory or user_state_dir() / "facts"
        self._loaded: dict[str, tuple[EarlierFacts | None, EarlierFacts | None]] = {}  # all, what is young

    def find_earlier(self, entry: HostEntry) -> EarlierFacts | None:
        """Return what is known of a host, None where nothing is; the same until it is kept anew."""
        return self._load(_file_name(entry))[1]

    def _load(self, name: str) -> tuple[EarlierFacts | None, EarlierFacts | None]:
        if name not in self._loaded:
            found = _load(self._directory / name)
            young = None if found is None else select_young_part(found, self._max_age_s, time.time())
            self._loaded[name] = found, young
        return self._loaded[name]

    def keep(self, entries: Iterable[HostEntry], facts: Mapping[str, HostFacts]) -> None:
        """Write what the hosts have answered for the next time, and remove what is too old for anybody."""
        now = time.time()
        try:
            for entry in entries:
                host, name = facts.get(entry.name), _file_name(entry)
                kept = None if host is None else select_reusable_parts(host, self._load(name)[0], now)
                if kept is not None:
                    write_below(self._directory, name, lay_out_json(encode(kept), depth=1) + "\n")
                    del self._loaded[name]
            for path in self._directory.glob("*.json"):
                with suppress(OSError):
                    if path.lstat().st_mtime < (now - _KEPT_S):
                        path.unlink()
        except (OSError, GpulaunchError) as error:
            reason = f"{self._directory}: {error.strerror}" if isinstance(error, OSError) else error
            self.problem = f"facts are not kept for the next time: {reason}"


def _file_name(entry: HostEntry) -> str:
    way = (entry.name, entry.address, entry.port, entry.user, entry.jump, entry.alias, entry.via)
    return hashlib.sha256(repr((*way, entry.python)).encode("utf-8", "replace")).hexdigest()[:32] + ".json"


def _load(path: Path) -> EarlierFacts | None:
    try:
        return decode(EarlierFacts, loads(read_own_file(path, _LARGEST)))
    except (OSError, ValueError, GpulaunchError):
        return None
