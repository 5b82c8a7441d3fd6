"""What a host's name and a user's name may be made of, wherever they come from.

ProxyCommand and Match exec of ssh_config are shell commands, and %h, %n and %r put these names into them;
messages show them in commands to paste, and known_hosts gets them as words. OpenSSH refuses names with a
shell's special characters (valid_hostname and valid_ruser). The rules of this module are stricter: nothing
that a shell expands in any place (`*` would name files of the current directory, `$IFS-o` in a user's name is
an option), and ASCII only, because /bin/sh reads bytes and a byte of a letter can be a backtick in some
encodings.
"""

import ipaddress

from preflight import regex as re

_LONGEST_HOST = 253  # of DNS
_LONGEST_USER = 255
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
USER_PATTERN = r"[A-Za-z0-9_]([A-Za-z0-9_.+@#%=,\\-]*[A-Za-z0-9_.+@#%=,-])?"
_USER = re.compile(USER_PATTERN)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DNS_NAME = re.compile(rf"(?:{_LABEL}\.)*(?![0-9]+\.?$|0[Xx]){_LABEL}\.?")
"""A name that ends in a number is an address to a resolver: 127.1, 2130706433, 0x7f.1."""
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

HOST_RULE = "letters, digits and . _ + - after them, or an IP address"
USER_RULE = "letters, digits and . _ + @ # % = , - \\ after them"
NAMES_OF_FILE = "names of a file: --hosts \"$(grep -oE '^[[:alnum:]@._-]+' {} | paste -sd, -)\""


def is_ip(text: str) -> bool:
    """Whether text is an IPv4 or an IPv6 address, the latter with or without a zone (`fe80::1%eth0`)."""
    address, percent, zone = text.partition("%")
    if percent and not (_ZONE.fullmatch(zone) and ":" in address):
        return False
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return text.isascii()


def is_host(text: str) -> bool:
    """Whether text may be a host's name, alias or address."""
    return len(text) <= _LONGEST_HOST and (bool(_HOST.fullmatch(text)) or is_ip(text))


def is_user(text: str) -> bool:
    """Whether text may be the name of a user on a host."""
    return len(text) <= _LONGEST_USER and bool(_USER.fullmatch(text))


def is_plain_host(text: str) -> bool:
    """Whether text is an IP address or a DNS name: what a host may say of other hosts, and no more."""
    return len(text) <= _LONGEST_HOST and (bool(_DNS_NAME.fullmatch(text)) or is_ip(text))
