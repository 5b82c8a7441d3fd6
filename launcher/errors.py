"""The error tree. Each class has an exit code; `launcher.cli.main` catches the root, once."""

from collections.abc import Sequence

from launcher.exit_codes import ExitCode
from preflight.errors import BadInput, GpulaunchError, MalformedFacts

__all__ = ["BadInput", "GpulaunchError", "MalformedFacts"]  # these come from preflight


class ConfigError(BadInput, code="config"):
    """hosts.yaml or a run config is wrong; the message has one line per mistake: file, line, key, remedy."""


class CommandRefused(BadInput, code="command"):
    """A command line that was pasted cannot be launched as it is; the message has the word, and no secret."""

    def __init__(self, message: str, fix: str = "") -> None:
        from preflight.facts.redaction import redact_text  # noqa: PLC0415 - only for a mistake

        super().__init__(redact_text(message), redact_text(fix))


class ConfirmationRequired(BadInput, code="no-answer"):
    """A question needs an answer, and stdin is not a terminal."""

    def __init__(self, fix: str = "use --yes in scripts") -> None:
        super().__init__("confirmation required, but stdin is not a terminal", fix)


HOST_FIXES: dict[str, str] = {
    "HOST001": "type the command again; if it fails in the same way, `ssh HOST true` shows more.",
    "HOST002": "correct the name, or give `address:` in hosts.yaml; `getent hosts NAME` shows what resolves.",
    "HOST003": "check `port:` in hosts.yaml, and on the host that sshd runs: `systemctl status ssh`.",
    "HOST004": "is the host up, and is the way to it open? `ping HOST`, `nc -vz HOST 22`; through a jump "
    "host: `jump:`.",
    "HOST005": "compare the fingerprint with the host's own, then `--accept-new-host-keys`, or `ssh HOST` "
    "once.",
    "HOST006": "ask the administrator whether the host was reinstalled. If it was: `ssh-keygen -R HOST`. "
    "If the administrator cannot explain it, do not connect: it may be a machine in between.",
    "HOST007": "`ssh-copy-id HOST` (`ssh-keygen -t ed25519` first where there is none), or name the key with"
    " `--identity-file` or `identity_file:` in hosts.yaml, or `ssh-add` it. Where the host has the key: "
    "`chmod go-w ~ ~/.ssh` on it, for sshd ignores keys that others could change; its log says why.",
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
"""What to do about a host by the code of its error, where an error says nothing of its own."""


class HostError(GpulaunchError, exit_code=ExitCode.UNREACHABLE, code="HOST001"):
    """The host could not be used, for a reason that has no code of its own."""

    def __init__(self, host: str, message: str, fix: str = "") -> None:
        fix = fix or HOST_FIXES.get(self.code, "").replace("HOST", host).removesuffix(".")
        super().__init__(f"{host}: {message}", fix)
        self.host = host
        self.hosts = (host,)
        self.detail = message


class NameNotResolved(HostError, code="HOST002"):
    """The host's name has no address."""


class ConnectionRefused(HostError, code="HOST003"):
    """The SSH port refused the connection: nothing listens on it."""


class ConnectionTimedOut(HostError, code="HOST004"):
    """No answer on the SSH port, or an SSH step took longer than its time-out."""


class ConnectionLost(HostError):
    """An open connection ended before its work was done."""


class HostInterrupted(HostError, exit_code=ExitCode.INTERRUPTED, code="interrupted"):
    """A person or a signal ended the wait for the host's answer."""

    def __init__(self, host: str, message: str = "", fix: str = "") -> None:
        said = "interrupted before it answered: what it was asked may be done yet"
        super().__init__(host, message or said, fix)


class StepEnded(ConnectionLost):
    """The step of a Slurm job has ended, on one node or on all, and with it what ran on it."""


class CommandTimedOut(ConnectionTimedOut, code="HOST011"):
    """A command on the host did not end within its time limit."""


class DescriptorsExhausted(HostError):
    """The client has no descriptor or thread left for one more host."""

    def __init__(self, host: str, message: str = "", fix: str = "") -> None:
        said = "not asked: this machine has no descriptor left for one more connection (ulimit -n)"
        super().__init__(
            host, message or said, fix or "raise it with `ulimit -n 65536`, or use --parallel 16"
        )


class ShardEnded(HostError):
    """The local process that was to ask this host and others ended before it had; the host is not known."""


class ProgramNotStarted(HostError):
    """A program could not be started; `status` is what a shell answers: 127 absent, 126 not runnable."""

    def __init__(self, host: str, program: str, why: str, status: int) -> None:
        super().__init__(host, f"cannot start {program}: {why}")
        self.why = why
        self.status = status


class OutputTooLarge(HostError):
    """A command on the host sent more than its limit."""


class PathRefused(GpulaunchError, exit_code=ExitCode.ABORTED, code="path-refused"):
    """A file would be written elsewhere than in the directory that is meant; nothing was written."""


class HostKeyUnknown(HostError, code="HOST005"):
    """The host key is not in known_hosts; the message has the fingerprint, the fix accepts it."""


class HostKeyChanged(HostError, code="HOST006"):
    """The host key differs from the one in known_hosts. Never accepted by any option."""


class AuthenticationFailed(HostError, code="HOST007"):
    """No method was accepted; the message names the methods and keys that were tried."""


class HostNotContacted(HostError):
    """A host that only a run's record names; gpulaunch has not logged in to it."""


class PythonNotFound(HostError, code="HOST008"):
    """The configured interpreter does not exist on the host, or is older than 3.9."""


class AgentCrashed(HostError, code="HOST009"):
    """The agent ended with an error; the message has its last lines."""


class AgentProtocolError(HostError, code="HOST010"):
    """What came back is not an answer of the agent."""


class AgentTimedOut(HostError, code="HOST011"):
    """The agent did not answer within its deadline."""


class LoginShellDisabled(HostError, code="HOST012"):
    """The account on the host runs no programs: its login shell (nologin, false) started no interpreter."""


class CommandMissing(HostError, code="HOST013"):
    """The command of the host's `via:` (docker, kubectl, ...) is not installed where it is to run."""


class ContainerNotRunning(HostError, code="HOST014"):
    """The container of the host's `via:` is absent, stopped or paused."""


class ContainerStopped(ContainerNotRunning):
    """The container has ended or is gone, and with it every process that it had."""


class ContainersRefused(HostError, code="HOST015"):
    """docker, podman or a cluster refuses: no permission, or its service is down."""


class PrefixFailed(HostError, code="HOST016"):
    """The command of the host's `via:` started nothing, or changes the bytes that it carries."""


class CommandNotAllowed(HostError, code="HOST017"):
    """A project's hosts.yaml names a command to run, and the user has not allowed it."""


class HostsUnusable(GpulaunchError, exit_code=ExitCode.UNREACHABLE, code="hosts"):
    """Several hosts could not be used, each for a reason of its own; the message has a line for each."""

    def __init__(self, errors: Sequence[HostError], message: str, fix: str = "") -> None:
        super().__init__(message, fix)
        self.hosts = tuple(error.host for error in errors)


class LaunchRefused(GpulaunchError, exit_code=ExitCode.NEGATIVE, code="refused"):
    """Findings stop the launch."""


class GpusBusy(LaunchRefused, code="gpus-busy"):
    """Nothing but GPUs that others use stops the launch: they may be free later."""


class WaitTimedOut(GpulaunchError, exit_code=ExitCode.WAIT_TIMED_OUT, code="wait-timed-out"):
    """The GPUs were not free within the time of `run --wait`; nothing was started."""


class RunAlreadyEnded(GpulaunchError, exit_code=ExitCode.NEGATIVE, code="run-over"):
    """The run has ended, and what was asked of it needs living ranks."""


class BadNodeError(GpulaunchError, exit_code=ExitCode.BAD_NODE, code="bad-node"):
    """A node of a Slurm job is bad, and no spare of the job takes its place."""


class RunNotKept(GpulaunchError, exit_code=ExitCode.ABORTED, code="run-not-kept"):
    """The hosts of a run answer, and have neither processes nor records of it."""


class SlurmError(GpulaunchError, exit_code=ExitCode.ABORTED, code="slurm"):
    """A command of Slurm has failed; the message has its last words."""


class SlurmSilent(SlurmError, exit_code=ExitCode.UNREACHABLE, code="slurm-silent"):
    """Slurm's controller does not answer."""


class RunAborted(GpulaunchError, exit_code=ExitCode.ABORTED, code="aborted"):
    """The run could not be carried through for a reason other than a rank's own exit."""


class SyncFailed(RunAborted):
    """The tree could not be read locally, or could not be written on a host; nothing has been launched."""
