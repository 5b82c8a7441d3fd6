"""The codes of hosts that could not be used: one per class of launcher.errors."""

import inspect
from collections.abc import Iterable

from launcher.errors import BadInput, HostError


def host_codes() -> dict[str, type[HostError]]:
    """Return {code: error class}, ordered; a class without a code of its own goes by its parent's."""
    found: dict[str, type[HostError]] = {}
    todo: list[type[HostError]] = [HostError]
    while todo:
        kind = todo.pop(0)
        found.setdefault(kind.code, kind)
        todo += kind.__subclasses__()
    return dict(sorted(found.items()))


def read_codes(words: Iterable[str]) -> frozenset[str]:
    """Return the codes that --ignore names. Raises BadInput: one that does not exist would ignore nothing."""
    from preflight.checks.explain import list_codes  # noqa: PLC0415 - the checks are loaded only where one is named

    codes = frozenset(code.strip().upper() for word in words for code in word.split(",") if code.strip())
    known = list_codes(host_codes()) if codes else frozenset[str]()
    unknown = sorted(codes - known)
    if unknown:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        near = get_close_matches(unknown[0], sorted(known), n=1, cutoff=0.6)
        fix = f"did you mean {near[0]}?" if near else "gpulaunch checks lists them"
        raise BadInput(f"--ignore: no check {', '.join(unknown)}", fix)
    return codes


HOST_FIXES: dict[str, str] = {
    "HOST001": "read the message: it holds the transport's own words.",
    "HOST002": "correct the name, or give `address:` in hosts.yaml; `getent hosts NAME` shows what resolves.",
    "HOST003": "check `port:` in hosts.yaml, and on the host that sshd runs: `systemctl status ssh`.",
    "HOST004": "is the host up, and is the way to it open? `ping HOST`, `nc -vz HOST 22`; through a jump "
    "host: `jump:`.",
    "HOST005": "compare the fingerprint with the host's own, then `--accept-new-host-keys`, or `ssh HOST` "
    "once.",
    "HOST006": "ask the administrator whether the host was reinstalled. If it was: `ssh-keygen -R HOST`. "
    "If the administrator cannot explain it, do not connect: it may be a machine in between.",
    "HOST007": "`ssh-copy-id HOST` (`ssh-keygen -t ed25519` first where there is none), or name the key with"
    " `--identity-file` or `identity_file:` in hosts.yaml, or `ssh-add` it.",
    "HOST008": "set `python:` of the host in hosts.yaml to the training environment's interpreter, 3.9 or "
    "newer.",
    "HOST009": "the last lines it said are in the message; run `gpulaunch preflight HOST` again, then report"
    " it.",
    "HOST010": "something else answers: a start-up file that ends the shell, or a forced command. `ssh HOST "
    "true`.",
    "HOST011": "look at the host's load, at its storage (a hanging mount), and at the start-up files of its "
    "login shell, which run first (conda, pyenv, modules): `ssh HOST uptime`.",
    "HOST012": "ask for a login shell on the host (`chsh`), or log in as another `user:`; a start-up file "
    "that ends the shell does the same. `ssh HOST true`.",
    "HOST013": "install the command where it is to run, or correct `via:` in hosts.yaml.",
    "HOST014": "`docker start NAME` on the host; `docker ps -a` lists its containers. A run that was in the "
    "container has ended with it.",
    "HOST015": "on the host: `docker ps` as the same user. Ask for the group `docker`, or write `sudo: true` "
    "beside the name in `via:`.",
    "HOST016": "try the command of `via:` by hand: what you type must arrive unchanged at `COMMAND cat`, "
    "without a pseudo terminal.",
    "HOST017": "read the command. If you trust it, run gpulaunch at a terminal and answer yes, or move the "
    "host to ~/.config/gpulaunch/hosts.yaml.",
}


def explain_host(code: str, kind: type[HostError]) -> str:
    """Return what a code of an unusable host means."""
    fix = f"\nFix: {HOST_FIXES[code]}\n" if code in HOST_FIXES else ""
    return f"{code}: {inspect.getdoc(kind) or kind.__name__}\n(critical, the host could not be judged)\n{fix}"
