"""Host certificates: what one must say before the @cert-authority that signed it vouches for a host."""

import base64

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from launcher.text import one_line
from launcher.transports.ssh.known_hosts import fingerprint
from preflight.frozen import dataclass

_SHA1_SIGNATURE = b"ssh-rsa"


@dataclass(frozen=True, slots=True)
class CertificateCheck:
    """Who signed a certificate, as key bytes, and why it is not good, "" where it is."""

    signer: bytes
    problem: str = ""

    @property
    def by(self) -> str:
        """The signer, for a message."""
        return fingerprint(self.signer)


def check_host_certificate(certificate: bytes, kind: str, name: str, now_s: float) -> CertificateCheck | None:
    """Return who signed a certificate of `kind` for `name`; None where it cannot be read at all."""
    line = kind.encode() + b" " + base64.b64encode(certificate)
    try:
        loaded = serialization.load_ssh_public_identity(line)
        if not isinstance(loaded, serialization.SSHCertificate):
            return None
        public = loaded.signature_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return CertificateCheck(_blob(public), _problem(loaded, name, now_s))


def parse_certified_key(text: bytes) -> bytes:
    """Return the public key that a certificate file certifies. Raises ValueError where it is none."""
    try:
        loaded = serialization.load_ssh_public_identity(text)
    except UnsupportedAlgorithm as failure:
        raise ValueError(str(failure)) from None
    if not isinstance(loaded, serialization.SSHCertificate):
        raise ValueError("a key without a certificate")  # noqa: TRY004 - a file's content, not a type of ours
    return _blob(
        loaded.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )


def _blob(line: bytes) -> bytes:
    return base64.b64decode(line.split()[1])


def _problem(certificate: serialization.SSHCertificate, name: str, now_s: float) -> str:
    if certificate.type != serialization.SSHCertificateType.HOST:
        return "it is a user's, not a host's"
    signed_with = getattr(certificate, "_inner_sig_type", None)  # cryptography has no public name for it
    if not isinstance(signed_with, bytes | memoryview):
        return "it cannot be seen what it is signed with"
    if bytes(signed_with) == _SHA1_SIGNATURE:
        return "it is signed with SHA-1"
    try:
        certificate.verify_cert_signature()
    except (InvalidSignature, ValueError):
        return "its signature is wrong"
    if now_s < certificate.valid_after:
        return "it is not valid yet; compare the clocks"
    if now_s >= certificate.valid_before:
        return "it has expired"
    if certificate.critical_options:
        return "it requires what gpulaunch does not know: " + one_line(
            b", ".join(certificate.critical_options), 80
        )
    names = tuple(principal.decode("utf-8", "replace") for principal in certificate.valid_principals)
    if names and name.lower() not in names:  # as for ssh: no patterns, and without any it is for every host
        return f"it is for {one_line(', '.join(names), 120)}, not for {name}"
    return ""
