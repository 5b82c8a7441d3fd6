"""Hide who and where in recorded facts: one pseudonym per name, so that they still fit together."""

from collections.abc import Iterator
from typing import Any

from preflight import regex as re

_KEPT_USERS = frozenset({"root", "nobody", ""})
_SYSTEM_PATHS = re.compile(r"^/(dev|proc|sys|usr|bin|sbin|lib|lib64|etc|run|boot)(/|$)")
_PATH = re.compile(r"~?/[^\s:;,='\"\\]+")
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F-]{8,}")
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)
_KEPT_WORD = re.compile(
    r"^(-{1,2}[\w-]+|\d+|-m|-c|-u|python[\d.]*|accelerate|launch|torchrun|deepspeed|torch\.[\w.]+|"
    r"accelerate\.commands\.\w+|bash|sh|sleep|sshd.*|systemd|init( \[\w\])? *|busybox|openrc-init|runit|"
    r"s6-svscan|pause|tini|docker-init|dumb-init|catatonit|podman-init)$"
)
_NAMES_KEPT = (".py", ".sh", ".yaml")
_UNTOUCHED = frozenset({"packages", "version", "torch_cuda", "nccl", "probe_ms", "capability", "code"})
_USER_KEYS, _HOST_KEYS, _BOOT_KEYS = map(frozenset, (("user",), ("host", "hostname"), ("boot_id",)))
_ADDRESS_KEYS = frozenset({"addresses", "own_name_addresses", "ssh_server_address", "address"})
_LAUNCH_NUMBERS = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT"}
)


def anonymize_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a copy without names of users and hosts, paths, UUIDs, addresses, arguments, script text."""
    masked = _Mask(facts).value(facts, "")
    if isinstance(masked.get("script"), dict) and "text" in masked["script"]:
        masked["script"] |= {"text": {"missing": "masked", "code": "not-asked"}, "own_modules": []}
    return dict(masked)


class _Mask:
    """Pseudonyms, given out in the order in which names are met."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._words: dict[str, str] = {}
        for user in sorted({*_found(facts, _USER_KEYS)} - _KEPT_USERS, key=len, reverse=True):
            if not user.isdecimal():  # a user without a name, and any count that is the same number
                self._words[user] = self._stand_in("user", user)
        for host in sorted({*_found(facts, _HOST_KEYS)}, key=len, reverse=True):
            self._words[host] = self._stand_in("host", host)
        for boot in {*_found(facts, _BOOT_KEYS)}:
            self._words[boot] = self._stand_in("boot", boot)
        for address in sorted(_found(facts, _ADDRESS_KEYS), key=len, reverse=True):
            if not _is_loopback(address):
                self._words[address] = self._address(address)
        words = "|".join(re.escape(word) for word in self._words)
        self._pattern = re.compile(rf"(?<![\w.-])(?:{words})(?![\w-])") if words else None

    def value(self, value: Any, key: str) -> Any:
        """Mask anything; `key` is its name."""
        if key in _UNTOUCHED:
            return value
        if isinstance(value, dict):
            return {self.text(name, key): self.value(item, name) for name, item in value.items()}
        if isinstance(value, list):
            if key == "argv":
                return [self._argument(item) for item in value]
            return [self.value(item, key) for item in value]
        if isinstance(value, str):
            return value if key in _LAUNCH_NUMBERS else self.text(value, key)
        return value

    def text(self, text: str, key: str) -> str:
        """Mask one string."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda m: self._words[m[0]], text)
        text = _UUID.sub(
            lambda m: f"{m[1]}-{int(self._number(m[1], m[0])):08x}-0000-0000-0000-000000000000", text
        )
        text = _MAC.sub(lambda m: f"02:00:00:00:00:{int(self._number('mac', m[0])) % 256:02x}", text)
        if key != "kernel":
            text = _IPV4.sub(lambda m: m[0] if _is_loopback(m[0]) else self._address(m[0]), text)
        return _PATH.sub(lambda m: self._path(m[0]), text)

    def _argument(self, word: str) -> str:
        if _KEPT_WORD.match(word):
            return word
        if "/" in word:
            return self.text(word, "argv")
        if word.startswith("-") and "=" in word:
            option, _, value = word.partition("=")
            return f"{option}={self._argument(value)}"
        suffix = next((name for name in _NAMES_KEPT if word.endswith(name)), "")
        return self._stand_in("word", word) + suffix

    def _path(self, path: str) -> str:
        if _SYSTEM_PATHS.match(path) and not path.startswith("/run/user"):
            return path
        parts = path.split("/")
        return "/".join(self._component(part) for part in parts)

    def _component(self, part: str) -> str:
        if part in ("", "~", ".", "..", "bin", "lib", "home", "tmp") or _KEPT_WORD.match(part):
            return part
        if part in self._words.values():
            return part
        suffix = next((name for name in _NAMES_KEPT if part.endswith(name)), "")
        return self._stand_in("path", part) + suffix

    def _address(self, address: str) -> str:
        number = int(self._number("address", address))
        if ":" in address:  # one that only its own link reaches stays one: checks judge it otherwise
            return f"{'fe80' if address.lower().startswith('fe80:') else '2001:db8'}::{number:x}"
        network = "169.254" if address.startswith("169.254.") else "198.18"
        return f"{network}.{number // 256 % 256}.{number % 256}"

    def _stand_in(self, kind: str, name: str) -> str:
        return f"{kind}{self._number(kind, name)}"

    def _number(self, kind: str, name: str) -> str:
        known = sum(1 for other, _ in self._given if other == kind)
        return self._given.setdefault((kind, name), str(known + 1))


def _found(value: Any, keys: frozenset[str], key: str = "") -> Iterator[str]:
    """Yield every string under one of these keys, or in a list under it, at any depth."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _found(item, keys, name)
    elif isinstance(value, list):
        for item in value:
            yield from _found(item, keys, key)
    elif isinstance(value, str) and key in keys and value:
        yield value


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address in ("::1", "::", "0.0.0.0", "*", "localhost")  # noqa: S104
