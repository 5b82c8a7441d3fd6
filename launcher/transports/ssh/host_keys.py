"""Whether the host is the one it should be: its key against known_hosts, before anything is sent to it."""

import time
from pathlib import Path

import paramiko

from launcher.errors import HostError, HostKeyChanged, HostKeyUnknown
from launcher.transports.base import Endpoint
from launcher.transports.ssh import certificates, known_hosts
from launcher.transports.ssh.transport import SshTransport

# One key type, several signature algorithms.
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


def read_known_keys(endpoint: Endpoint) -> known_hosts.HostKeys:
    """Return what the endpoint's known_hosts files hold for it."""
    return known_hosts.find_keys(_files(endpoint), lookup_name(endpoint), _lookup_port(endpoint))


def prefer_known_key_types(transport: SshTransport, known: known_hosts.HostKeys) -> None:
    """Put the key types that known_hosts has first, or a known ed25519 host may show its unknown rsa key."""
    transport.takes_certificates = bool(known.authorities)
    if not known.key_types:
        return
    options = transport.get_security_options()
    wanted = [name for kind in known.key_types for name in _ALGORITHMS.get(kind, (kind,))]
    have = tuple(options.key_types)
    first = tuple(name for name in wanted if name in have)
    options.key_types = first + tuple(name for name in have if name not in first)


class NewHostKey(HostKeyUnknown):
    """The key is new to known_hosts and could be taken, if the user says so."""


def render_question(endpoint: Endpoint, key: paramiko.PKey) -> tuple[str, ...]:
    """Return what ssh prints before it asks whether to take a new key."""
    name, address = endpoint.name, lookup_name(endpoint)
    where = name if name == address else f"{name} ({address})"
    kind = key.get_name().removeprefix("ssh-").partition("-")[0].upper()
    return (
        f"The authenticity of host {where!r} cannot be established.",
        f"{kind} key fingerprint is {known_hosts.fingerprint(key.asbytes())}.",
    )


def verify_key(
    endpoint: Endpoint, known: known_hosts.HostKeys, key: paramiko.PKey, *, accept_new: bool
) -> None:
    """Return if the key is known, signed by an authority that is, or new and accepted (then it is saved).

    Raises HostKeyUnknown with the fingerprint and the command that accepts it (NewHostKey where that helps),
    HostKeyChanged loudly.
    """
    blob = key.asbytes()
    if blob in known.revoked:
        raise _revoked(endpoint, key)
    signed = _vouched(endpoint, key)
    if signed is not None and _by_authority(endpoint, known, key, signed):
        return
    if known.contains(blob):
        return
    if known.keys and (signed is None or key.get_name() in known.key_types):
        raise _changed(endpoint, known, key)
    if not accept_new or known.keys:
        raise _unknown(HostKeyUnknown if known.keys else NewHostKey, endpoint, known, key, signed)
    file = (endpoint.known_hosts_files or known_hosts.DEFAULT_USER_FILES)[0]
    try:
        name = known_hosts.choose_entry_name(
            lookup_name(endpoint), _lookup_port(endpoint), hashed=endpoint.hash_known_hosts
        )
        known_hosts.save_key(file, name, key.get_name(), blob)
    except OSError as failure:
        message = f"its new host key cannot be saved in {file}: {failure.strerror}"
        fix = "make it writable, or name another file: UserKnownHostsFile in ~/.ssh/config"
        raise HostError(endpoint.name, message, fix) from None


def _vouched(endpoint: Endpoint, key: paramiko.PKey) -> certificates.CertificateCheck | None:
    if key.public_blob is None:
        return None
    kind = str(key.public_blob.key_type)
    return certificates.check_host_certificate(
        key.public_blob.key_blob, kind, lookup_name(endpoint), time.time()
    )


def _by_authority(
    endpoint: Endpoint, known: known_hosts.HostKeys, key: paramiko.PKey, signed: certificates.CertificateCheck
) -> bool:
    """Say whether an authority of known_hosts vouches for the key. Raises where one does so wrongly."""
    if signed.signer in known.revoked:
        raise _revoked(endpoint, key, f"THE AUTHORITY {signed.by} OF ITS HOST KEY")
    authority = next((line for line in known.authorities if line.blob == signed.signer), None)
    if authority is None:
        return False
    if signed.problem:
        message = (
            f"its host certificate is not good: {signed.problem} (signed by {signed.by} of {authority.where})"
        )
        raise HostKeyUnknown(
            endpoint.name, message, "ask the operator of that authority for a new certificate"
        )
    return True


def _files(endpoint: Endpoint) -> tuple[str, ...]:
    users = endpoint.known_hosts_files or known_hosts.DEFAULT_USER_FILES
    return users + (endpoint.system_known_hosts_files or known_hosts.SYSTEM_FILES)


def lookup_name(endpoint: Endpoint) -> str:
    """Return the name that known_hosts has a host by."""
    return endpoint.host_key_alias or endpoint.address


def _lookup_port(endpoint: Endpoint) -> int:
    """Return the port that belongs to the name in known_hosts: an alias has none in the file."""
    return known_hosts.SSH_PORT if endpoint.host_key_alias else endpoint.port


def _unknown(
    kind: type[HostKeyUnknown],
    endpoint: Endpoint,
    known: known_hosts.HostKeys,
    key: paramiko.PKey,
    signed: certificates.CertificateCheck | None,
) -> HostKeyUnknown:
    note = ""
    if signed is not None:
        note = f" (the certificate is signed by {signed.by}, not a @cert-authority for it in known_hosts)"
    elif known.authorities:
        note = " (it shows no certificate of the @cert-authority that known_hosts names for it)"
    elif unread := known_hosts.find_unreadable(_files(endpoint)):
        note = f" ({unread})"
    message = (
        f"its host key is not known, so it could be another machine{note}: "
        f"{key.get_name()} {known_hosts.fingerprint(key.asbytes())}"
    )
    name = key.get_name().removeprefix("ssh-").removeprefix("ecdsa-sha2-").split("nistp")[0] or "ecdsa"
    fix = (
        f"compare with `ssh-keygen -lf /etc/ssh/ssh_host_{name}_key.pub` on the host; if equal: the same "
        "command with --accept-new-host-keys"
    )
    return kind(endpoint.name, message, fix)


def _changed(endpoint: Endpoint, known: known_hosts.HostKeys, key: paramiko.PKey) -> HostKeyChanged:
    expected = "; ".join(
        f"{one.kind} {known_hosts.fingerprint(one.blob)} ({one.where})" for one in known.keys
    )
    note = ""
    if endpoint.new_host_keys == "unchecked":
        note = ". `StrictHostKeyChecking no` lets new keys in, never changed ones"
    message = (
        "ITS HOST KEY HAS CHANGED. Either the host was set up anew, or another machine answers in its place. "
        f"It shows {key.get_name()} {known_hosts.fingerprint(key.asbytes())}; known is {expected}{note}"
    )
    file = Path(known.keys[0].where.rpartition(":")[0])
    name = known_hosts.list_host_names(lookup_name(endpoint), _lookup_port(endpoint))[0]
    fix = f"ask its administrator. Only when the change is explained: ssh-keygen -R '{name}' -f '{file}'"
    return HostKeyChanged(endpoint.name, message, fix)


def _revoked(endpoint: Endpoint, key: paramiko.PKey, subject: str = "ITS HOST KEY") -> HostKeyChanged:
    message = (
        f"{subject} IS REVOKED in known_hosts: its holder is not to be trusted. "
        f"It shows {key.get_name()} {known_hosts.fingerprint(key.asbytes())}"
    )
    return HostKeyChanged(endpoint.name, message, "ask the administrator of the host why its key was revoked")
