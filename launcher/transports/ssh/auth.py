"""Proving who we are: agent, key files with their certificates, and, only by prompt, a password."""

import contextlib
import errno
import os
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

import paramiko
from paramiko.pkey import PublicBlob, UnknownKeyType
from paramiko.ssh_exception import PartialAuthentication

from launcher.errors import AuthenticationFailed, ConnectionLost, ConnectionTimedOut
from launcher.local.descriptors import raise_if_exhausted
from launcher.local.fanout_places import LOGIN, await_in_place, release_place
from launcher.local.home import expand_home
from launcher.transports.base import Confirm, Endpoint, Prompt
from launcher.transports.ssh import host_keys, known_hosts
from launcher.transports.ssh.certificates import parse_certified_key
from launcher.transports.ssh.key_agent import AGENT_TIMEOUT_S, KeyAgent
from launcher.transports.ssh.ssh_command import format_ssh_copy_id
from preflight.frozen import dataclass

DEFAULT_IDENTITY_FILES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")

_BY_SECRET = ("password", "keyboard-interactive")
_PASSWORD_TRIES = 3
_UNITS = ("keys", "times")

_CERTIFICATE = "-cert.pub"
_LARGEST_KEY = 1 << 20  # as OpenSSH's MAX_KEY_FILE_SIZE
ENCRYPTED = "encrypted"
_NO_FILE = "no such file"
_NO_KEY = "not a usable private key"
_NO_TERMINAL = "there is no terminal to ask for its passphrase"
_ASKS_AT_TERMINAL = "; or run gpulaunch at a terminal, where it asks for the passphrase"
_NO_PROMPT = "not asked for, there is no terminal"
_PUBLIC = ".pub"
_Loaded: TypeAlias = "tuple[paramiko.PKey, ...] | str"  # keys, or why there is none
_Offer: TypeAlias = "tuple[str, paramiko.PKey]"  # a key, and what to call it in a message


@dataclass(slots=True)
class KeyRing:
    """Private keys by path, loaded once for all hosts; gpulaunch asks for each passphrase once.

    A password that a host has accepted is kept in memory, for the next connection to it.
    """

    prompt: Prompt | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    plain: dict[str, _Loaded] = field(default_factory=dict)
    unlocked: dict[str, _Loaded] = field(default_factory=dict)
    taken: set[tuple[str, int, bytes]] = field(default_factory=set)
    passwords: dict[tuple[str, int, str], str] = field(default_factory=dict)  # by name, port and user

    def keys(self, file: str) -> _Loaded:
        """Return a file's keys to offer (the certified one first) without asking, or why there is none."""
        with self.lock:
            if file not in self.plain:
                self.plain[file] = _load(file, None)
            return self.plain[file]

    def unlock(self, file: str) -> _Loaded:
        """Return the keys of an encrypted file, asking for its passphrase."""
        with self.lock:
            if file not in self.unlocked:
                self.unlocked[file] = self._ask_and_load(file)
            return self.unlocked[file]

    def _ask_and_load(self, file: str) -> _Loaded:
        if self.prompt is None:
            return f"{ENCRYPTED}, and {_NO_TERMINAL}; use ssh-add"
        wrong, given = "", "its passphrase was not given"
        for _ in range(_PASSWORD_TRIES):
            try:
                keys = _load(file, self.prompt(f"{wrong}Passphrase for {file}: "))
            except EOFError:
                break
            if not isinstance(keys, str):
                return keys
            wrong, given = "That is not it. ", "what was given is not its passphrase"
        return f"{ENCRYPTED}, and {given}"

    def takes_new_key(self, endpoint: Endpoint, key: paramiko.PKey, confirm: Confirm) -> bool:
        """Ask whether to take a host's new key, as ssh asks, one host at a time."""
        fingerprint = known_hosts.fingerprint(key.asbytes())
        question = "Are you sure you want to continue connecting (yes/no/[fingerprint])?"
        lines = host_keys.render_question(endpoint, key)
        with self.lock, contextlib.suppress(EOFError):
            if self.has_taken(endpoint, key) or host_keys.read_known_keys(endpoint).contains(key.asbytes()):
                return True  # said meanwhile, of another connection
            for _ in range(_PASSWORD_TRIES):
                answer = confirm(lines, question).strip()
                if answer.lower() in ("yes", "no") or answer == fingerprint:
                    if answer.lower() != "no":
                        self.taken.add((host_keys.lookup_name(endpoint), endpoint.port, key.asbytes()))
                    return answer.lower() != "no"
                lines, question = (), "Please type 'yes', 'no' or the fingerprint:"
        return False

    def has_taken(self, endpoint: Endpoint, key: paramiko.PKey) -> bool:
        """Whether the user said yes to this key; where known_hosts is /dev/null, this alone knows it."""
        return (host_keys.lookup_name(endpoint), endpoint.port, key.asbytes()) in self.taken

    def ask_password(self, endpoint: Endpoint, question: str) -> str | None:
        """Ask for a password, one question at a time. None: no terminal to ask at."""
        if self.prompt is None:
            return None
        with self.lock, contextlib.suppress(EOFError):
            host = endpoint.name.removeprefix(f"{endpoint.user}@")
            return self.prompt(f"{endpoint.user}@{host}: {question}")
        return None


@dataclass(slots=True)
class Login:
    """One login: what was tried so far, for the message, and which methods the host said it takes."""

    transport: paramiko.Transport
    endpoint: Endpoint
    ring: KeyRing
    tried: list[str] = field(default_factory=list)
    methods: tuple[str, ...] = ()

    def authenticate(self) -> None:
        """Log in, keys first. Raises AuthenticationFailed naming what was tried, or a lost connection."""
        with closing(KeyAgent(self.endpoint)) as agent:
            for label, key in self._offers(agent):
                if self._offer(label, key):
                    return
                if self.methods and "publickey" not in self.methods:
                    break
        if not self.methods and not self._none():
            return
        if not self._by_password():
            raise self._failed()

    def _offers(self, agent: KeyAgent) -> Iterator[_Offer]:
        """Yield keys in the order to offer them: named files, the agent's keys, then the default files.

        A key that is named but encrypted (or only public) is taken from the agent where that holds it.
        """
        offered: set[bytes] = set()
        certificates = self._certificates()
        for label, key in _certified(self._in_order(agent), certificates):
            blob = key.public_blob.key_blob if key.public_blob else key.asbytes()
            if blob not in offered:
                offered.add(blob)
                yield label, key

    def _certificates(self) -> dict[bytes, tuple[str, PublicBlob]]:
        """Return the certificates of CertificateFile by the public key that each certifies."""
        found: dict[bytes, tuple[str, PublicBlob]] = {}
        for file in self.endpoint.certificate_files:
            try:
                _demand_file(str(expand_home(file)))
                text = expand_home(file).read_bytes()
                found[parse_certified_key(text)] = file, PublicBlob.from_string(text.decode())
            except OSError as failure:
                raise_if_exhausted(failure)
                self.tried.append(f"certificate {file}: {(failure.strerror or 'unreadable').lower()}")
            except ValueError:
                self.tried.append(f"certificate {file}: not an SSH certificate")
        return found

    def _in_order(self, agent: KeyAgent) -> Iterator[_Offer]:
        for file in self.endpoint.identity_files:
            yield from self._from_file(file, agent)
        if not self.endpoint.identities_only:
            for key in agent.keys.values():
                yield f"agent key {getattr(key, 'comment', '') or key.get_name()}", key
        if not self.endpoint.identity_files:
            for file in DEFAULT_IDENTITY_FILES:
                if expand_home(file).exists():
                    yield from self._from_file(file, agent)

    def _from_file(self, file: str, agent: KeyAgent) -> Iterator[_Offer]:
        keys = self.ring.keys(file)
        if isinstance(keys, str):
            held = agent.keys.get(_public_blob(file))
            if held is not None:
                yield f"{file} (from the agent)", held
                return
            keys = self.ring.unlock(file) if keys == ENCRYPTED else keys
        if isinstance(keys, str):
            self.tried.append(f"{file}: {keys}")
            return
        for key in keys:
            yield (f"{file} with its certificate" if key.public_blob else file), key

    def _offer(self, label: str, key: paramiko.PKey) -> bool:
        self.tried.append(f"key {label}" if not label.startswith("agent") else label)
        done = threading.Event()
        with contextlib.suppress(paramiko.SSHException):
            self.transport.auth_publickey(self.endpoint.user, key, done)
            return self._await(done)
        self._still_there()
        return False

    def _none(self) -> bool:
        """Ask for the methods; return False where the host lets us in without any."""
        try:
            with release_place(LOGIN):
                self.transport.auth_none(self.endpoint.user)
        except paramiko.BadAuthenticationType as refusal:
            self.methods = tuple(refusal.allowed_types)
        except paramiko.SSHException:
            self._still_there()
        return not self.transport.is_authenticated()

    def _by_password(self) -> bool:
        method = next((m for m in _BY_SECRET if m in self.methods), "")
        if not method:
            return False
        is_password = method == "password"  # a code may be good for one login only
        account = host_keys.lookup_name(self.endpoint), self.endpoint.port, self.endpoint.user
        kept = self.ring.passwords.get(account) if is_password else None
        spares = f" ({format_ssh_copy_id(self.endpoint)} spares it)" if "publickey" in self.methods else ""
        question = f"password{spares}: "
        for _ in range(_PASSWORD_TRIES):
            password, kept = self.ring.ask_password(self.endpoint, question) if kept is None else kept, None
            if password is None:
                self.tried.append(f"{method}: {_NO_PROMPT if self.ring.prompt is None else 'not given'}")
                return False
            self.tried.append(method)
            try:
                with release_place(LOGIN):
                    self.transport.auth_password(self.endpoint.user, password, fallback=True)
            except paramiko.SSHException:
                self._still_there()
            if self.transport.is_authenticated():
                if is_password:
                    self.ring.passwords[account] = password
                return True
            if self.ring.passwords.get(account) == password:  # the host refuses it by now
                self.ring.passwords.pop(account, None)
            question = f"not accepted; password{spares}: "
        return False

    def _await(self, done: threading.Event) -> bool:
        of_agent_s = AGENT_TIMEOUT_S if "agent" in self.tried[-1] else 0
        if not await_in_place(done, max(self.endpoint.connect_timeout_s, of_agent_s), LOGIN):
            raise ConnectionTimedOut(
                self.endpoint.name, "no answer to the authentication in time", "is its sshd overloaded?"
            )
        if self.transport.is_authenticated():
            return True
        refusal = self.transport.get_exception()
        if isinstance(refusal, paramiko.BadAuthenticationType | PartialAuthentication):
            self.methods = tuple(refusal.allowed_types)
        self._still_there()
        return False

    def _still_there(self) -> None:
        """Raise where the host hung up: after its MaxAuthTries, or because something cut the line."""
        if self.transport.is_active():
            return
        if self.tried:
            raise self._failed("the host hung up (too many keys? set `identity_file:`)")
        raise ConnectionLost(self.endpoint.name, "the connection ended during authentication")

    def _add_key(self) -> str:
        """Return what adds a key to the account; ssh-copy-id itself logs in, by a password."""
        has_key = any(not said.startswith(_BY_SECRET) for said in self.tried)
        key = "yours" if has_key else "one that `ssh-keygen -t ed25519` makes"
        if self.methods and not set(_BY_SECRET).intersection(self.methods):
            return f"have {key} added to ~{self.endpoint.user}/.ssh/authorized_keys on the host"
        return f"add {key}: {format_ssh_copy_id(self.endpoint)}"

    def _failed(self, why: str = "") -> AuthenticationFailed:
        times = Counter(self.tried or ["nothing: no agent, no key file"]).items()
        tried = "; ".join(
            said if n == 1 else f"{said}, {n} {_UNITS[said in _BY_SECRET]}" for said, n in times
        )
        takes = f"; the host takes {', '.join(self.methods)}" if self.methods else ""
        message = f"not let in as {self.endpoint.user}: {why + '; ' if why else ''}tried {tried}{takes}"
        fix = (
            f"is {self.endpoint.user} the right user? Else name a key that the host knows (--identity-file,"
            f" identity_file in hosts.yaml, IdentityFile in ~/.ssh/config), or {self._add_key()}"
        )
        if self.methods and "publickey" not in self.methods:
            fix = f"is {self.endpoint.user} the right user? The host takes no keys"
        if any(said.endswith(_NO_PROMPT) for said in self.tried):
            fix += "; or run gpulaunch at a terminal, where it asks for the password"
        spoilt = next((said for said in self.tried if f": {_NO_KEY}" in said), "")
        if spoilt and (not self.methods or "publickey" in self.methods):
            other = "name another (--identity-file, identity_file in hosts.yaml)"
            fix = f"{spoilt.partition(': ')[0]} is {_NO_KEY}: copy it anew, {other}, or {self._add_key()}"
        absent = [file for file in self.endpoint.identity_files if f"{file}: {_NO_FILE}" in self.tried]
        locked = next(
            (said.partition(f": {ENCRYPTED}")[0] for said in self.tried if f": {ENCRYPTED}" in said), ""
        )
        if locked:
            fix = f"ssh-add {locked}" + _ASKS_AT_TERMINAL * any(_NO_TERMINAL in said for said in self.tried)
        if absent:
            files = "identity_file in hosts.yaml or IdentityFile in ssh_config"
            fix = f"{absent[0]} does not exist: correct {files}"
        return AuthenticationFailed(self.endpoint.name, message, fix)


def _load(file: str, passphrase: str | None) -> _Loaded:
    try:
        return _read_key(str(expand_home(file)), passphrase)
    except OSError as failure:
        raise_if_exhausted(failure)
        return _NO_FILE if isinstance(failure, FileNotFoundError) else failure.strerror or "not readable"
    except (TypeError, paramiko.PasswordRequiredException):
        return ENCRYPTED  # cryptography raises TypeError where a passphrase is needed and none was given
    except (ValueError, paramiko.SSHException, UnknownKeyType, NotImplementedError) as failure:
        if file.endswith(_PUBLIC):
            private = file.removesuffix(_PUBLIC)
            instead = private if expand_home(private).exists() else "the private key"
            return f"a public key, whose private key no agent has: name {instead} instead"
        return f"{_NO_KEY} ({type(failure).__name__})"


def _read_key(path: str, passphrase: str | None) -> tuple[paramiko.PKey, ...]:
    # As bytes: paramiko 5 hands it on to cryptography, which takes no str, whatever the annotation says.
    secret: Any = passphrase.encode() if passphrase else None
    bare_path = path.removesuffix(_CERTIFICATE)
    _demand_file(bare_path)
    if os.path.exists(bare_path + _CERTIFICATE):  # noqa: PTH110 - which paramiko reads too
        _demand_file(bare_path + _CERTIFICATE)
    key = paramiko.PKey.from_path(path, secret)
    if key.public_blob is None:
        return (key,)
    bare = paramiko.PKey.from_path(path, secret)
    bare.public_blob = None  # the same key without its certificate, for hosts that know only the key
    return (key, bare)


def _demand_file(path: str) -> None:
    """Raise OSError where there is no file of a key's size: hosts.yaml may name a FIFO, or /dev/zero."""
    facts = os.stat(path)  # noqa: PTH116 - paths are text in this module
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if facts.st_size > _LARGEST_KEY:
        raise OSError(errno.EFBIG, "too large for a key", path)


def _certified(
    offers: Iterator[_Offer], certificates: dict[bytes, tuple[str, PublicBlob]]
) -> Iterator[_Offer]:
    """Offer a key with its certificate before the key alone, as ssh does."""
    for label, key in offers:
        file, certificate = certificates.get(key.asbytes(), ("", None))
        if certificate is not None and key.public_blob is None:
            copied = type(key).__new__(type(key))  # many hosts share the key
            copied.__dict__.update(key.__dict__)
            copied.public_blob = certificate
            yield f"{label} with certificate {file}", copied
        yield label, key


def _public_blob(file: str) -> bytes:
    path = expand_home(file)
    for candidate in (Path(f"{path}.pub"), path):
        with contextlib.suppress(OSError, ValueError, paramiko.SSHException):
            _demand_file(str(candidate))
            return bytes(PublicBlob.from_string(candidate.read_text("ascii")).key_blob)
    return b""
