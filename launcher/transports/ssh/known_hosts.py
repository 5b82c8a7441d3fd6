"""known_hosts files: which host keys a name may show. Knows no SSH library; reads and appends, no more."""

import base64
import binascii
import hashlib
import hmac
import os
import threading
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from launcher.local.descriptors import raise_if_exhausted
from launcher.local.home import expand_home
from launcher.transports.ssh.config_values import matches_patterns
from preflight.frozen import dataclass

DEFAULT_USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
SYSTEM_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

SSH_PORT = 22
_REVOKED = "@revoked"
_AUTHORITY = "@cert-authority"
_append_lock = threading.Lock()
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One accepted key: its type ("ssh-ed25519"), its bytes, and where it is written."""

    kind: str
    blob: bytes
    where: str  # "FILE:LINE"


@dataclass(frozen=True, slots=True)
class HostKeys:
    """What the files say about one name. `authorities` may sign the keys of such hosts."""

    keys: tuple[KnownKey, ...]
    revoked: frozenset[bytes]
    authorities: tuple[KnownKey, ...] = ()
    without_port: tuple[KnownKey, ...] = ()  # of the bare address, where no key of the port itself is known

    @property
    def key_types(self) -> tuple[str, ...]:
        """The key types to ask the host for, in file order."""
        return tuple(dict.fromkeys(key.kind for key in (*self.keys, *self.without_port)))

    def contains(self, blob: bytes) -> bool:
        """Say whether this very key is accepted."""
        return any(hmac.compare_digest(key.blob, blob) for key in (*self.keys, *self.without_port))


@dataclass(slots=True)
class _Index:
    """One parsed file: plain names by dictionary, the rest by trying each: marker or "", names, key."""

    plain: dict[str, list[KnownKey]] = field(default_factory=dict)
    others: list[tuple[str, tuple[str, ...], KnownKey]] = field(default_factory=list)


def list_host_names(address: str, port: int) -> tuple[str, ...]:
    """Return the names a host is looked up by, the one to save under first.

    As OpenSSH does, a key on another port is `[address]:port`, and a key of the bare address is good too.
    A different one of the bare address says nothing: another sshd has it, such as that of a container's host.
    """
    address = address.lower()
    if port == SSH_PORT:
        return (address,)
    return (f"[{address}]:{port}", address)


def fingerprint(blob: bytes) -> str:
    """Return the fingerprint as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def find_keys(files: Iterable[str], address: str, port: int) -> HostKeys:
    """Return what the files say about a host. Files that do not exist or cannot be read say nothing."""
    names = list_host_names(address, port)
    home = os.environ.get("HOME", "")
    indexes = [_load(_expanded(file, home)) for file in files]
    authorities: list[KnownKey] = []
    revoked = set[bytes]()
    for index in indexes:
        for marker, patterns, key in index.others:
            if not marker or not any(_matches(patterns, name) for name in names):
                continue
            if marker == _REVOKED:
                revoked.add(key.blob)
            elif marker == _AUTHORITY:
                authorities.append(key)
    keys = tuple(key for index in indexes for key in _keys_of(index, names[0]))
    others = () if keys else names[1:]
    without_port = tuple(key for name in others for index in indexes for key in _keys_of(index, name))
    return HostKeys(keys, frozenset(revoked), tuple(authorities), without_port)


def find_unreadable(files: Iterable[str]) -> str:
    """Return which of the files exists and cannot be read, with the reason, "" where none does."""
    for path in map(expand_home, files):
        try:
            path.open("rb").close()
        except FileNotFoundError:
            continue
        except OSError as failure:
            return f"{path} cannot be read: {failure.strerror}"
    return ""


def choose_entry_name(address: str, port: int, *, hashed: bool) -> str:
    """Return the name that a new key is saved under; hashed, the file does not show which host it is."""
    name = list_host_names(address, port)[0]
    if not hashed:
        return name
    salt = os.urandom(20)  # as long as the hash, as OpenSSH has it
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, _hash(salt, name)))


def save_key(file: str, name: str, kind: str, blob: bytes) -> None:
    """Append a key. Raises OSError."""
    path = expand_home(file)
    with _append_lock:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = f"{name} {kind} {base64.b64encode(blob).decode()}\n"
        with path.open("a+b") as stream:
            if stream.tell() > 0:
                stream.seek(-1, 2)
                line = line if stream.read(1) == b"\n" else "\n" + line
            stream.write(line.encode())
    _parse.cache_clear()


@lru_cache(maxsize=256)
def _expanded(file: str, _home: str) -> Path:
    return expand_home(file)


def _load(path: Path) -> _Index:
    try:
        stat = path.stat()
        with _parsing:  # many threads ask at once, and the first of them reads for all
            return _parse(str(path), stat.st_mtime_ns, stat.st_size)
    except OSError as failure:
        raise_if_exhausted(failure)
        return _Index()


@lru_cache(maxsize=32)
def _parse(path: str, _mtime_ns: int, _size: int) -> _Index:
    index = _Index()
    text = Path(path).read_bytes().decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), start=1):
        _add_line(index, line.split(), f"{path}:{number}")
    return index


def _add_line(index: _Index, words: list[str], where: str) -> None:
    """Add one line; a line that does not parse is passed over, as ssh does: it can only lead to a refusal."""
    marker = ""
    if words and words[0].startswith("@"):
        marker, words = words[0], words[1:]
    if len(words) < 3 or words[0].startswith("#"):
        return
    try:
        key = KnownKey(words[1], base64.b64decode(words[2], validate=True), where)
    except (binascii.Error, ValueError):
        return
    names = tuple(words[0].split(","))
    if marker or names[0].startswith("|1|") or any(char in words[0] for char in "*?!"):
        index.others.append((marker, names, key))
    else:
        for name in names:
            index.plain.setdefault(name.lower(), []).append(key)


def _keys_of(index: _Index, name: str) -> Iterable[KnownKey]:
    yield from index.plain.get(name, ())
    yield from (key for marker, names, key in index.others if not marker and _matches(names, name))


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    """Match OpenSSH's pattern list, or a hashed name, which has no other beside it."""
    if not patterns[0].startswith("|1|"):
        return matches_patterns(patterns, name)
    salt, digest = _parse_hashed(patterns[0])
    return hmac.compare_digest(_hash(salt, name), digest)


@lru_cache(maxsize=1 << 16)
def _parse_hashed(name: str) -> tuple[bytes, bytes]:
    """Return the salt and the hash of a name, which no name has where it is not of this form."""
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in name.split("|")[2:4])
    except (binascii.Error, ValueError):
        return b"", b""
    return salt, digest


def _hash(salt: bytes, name: str) -> bytes:
    # The file format prescribes HMAC-SHA1; it hides names and protects nothing.
    return hmac.digest(salt, name.encode(), "sha1")
