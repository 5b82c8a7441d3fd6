"""The error tree. Each class has an exit code; `launcher.cli.main` catches the root, once."""

from collections.abc import Sequence
from typing import ClassVar

from launcher.exit_codes import ExitCode
from preflight.errors import BadInput, GpulaunchError, MalformedFacts

__all__ = [
    "AgentCrashed",
    "AgentProtocolError",
    "AgentTimedOut",
    "AuthenticationFailed",
    "BadInput",
    "BadNodeError",
    "CommandMissing",
    "CommandNotAllowed",
    "CommandRefused",
    "CommandTimedOut",
    "ConfigError",
    "ConfirmationRequired",
    "ConnectionLost",
    "ConnectionRefused",
    "ConnectionTimedOut",
    "ContainerNotRunning",
    "ContainerStopped",
    "ContainersRefused",
    "DescriptorsExhausted",
    "GpulaunchError",
    "GpusBusy",
    "HostError",
    "HostKeyChanged",
    "HostKeyUnknown",
    "HostNotContacted",
    "HostsUnusable",
    "LaunchRefused",
    "LoginShellDisabled",
    "MalformedFacts",
    "NameNotResolved",
    "OutputTooLarge",
    "PathRefused",
    "PrefixFailed",
    "ProgramNotStarted",
    "PythonNotFound",
    "RunAborted",
    "RunAlreadyEnded",
    "ShardEnded",
    "SlurmError",
    "StepEnded",
    "VerificationFailed",
    "WaitTimedOut",
]


class ConfigError(BadInput):
    """hosts.yaml or a run config is wrong; the message has one line per mistake: file, line, key, remedy."""

    code: ClassVar[str] = "config"


class CommandRefused(BadInput):
    """A command line that was pasted cannot be launched as it is; the message names the word."""

    code: ClassVar[str] = "command"


class ConfirmationRequired(BadInput):
    """A question needs an answer, and stdin is not a terminal."""

    code: ClassVar[str] = "no-answer"

    def __init__(self, fix: str = "use --yes in scripts") -> None:
        super().__init__("confirmation required, but stdin is not a terminal", fix)


class HostError(GpulaunchError):
    """One host could not be used. `code` is the finding code it becomes in a preflight."""

    exit_code: ClassVar[int] = ExitCode.UNREACHABLE
    code: ClassVar[str] = "HOST001"

    def __init__(self, host: str, message: str, fix: str = "") -> None:
        super().__init__(f"{host}: {message}", fix)
        self.host = host
        self.hosts = (host,)
        self.detail = message


class NameNotResolved(HostError):
    """The host's name has no address."""

    code: ClassVar[str] = "HOST002"


class ConnectionRefused(HostError):
    """Something answered that nothing listens on the SSH port."""

    code: ClassVar[str] = "HOST003"


class ConnectionTimedOut(HostError):
    """No answer on the SSH port, or an SSH step took longer than its time-out."""

    code: ClassVar[str] = "HOST004"


class ConnectionLost(HostError):
    """An open connection ended before its work was done."""


class StepEnded(ConnectionLost):
    """The step of a Slurm job has ended, on one node or on all, and with it what ran on it."""


class CommandTimedOut(ConnectionTimedOut):
    """A command on the host did not end within its time limit."""


class DescriptorsExhausted(HostError):
    """The client has no descriptor or thread left for one more host."""

    def __init__(self, host: str, message: str = "", fix: str = "") -> None:
        said = "not asked: this machine has no descriptor left for one more connection (ulimit -n)"
        super().__init__(
            host, message or said, fix or "Raise it with `ulimit -n 65536`, or use --parallel 16"
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


class PathRefused(GpulaunchError):
    """A file would be written elsewhere than in the directory that is meant; nothing was written."""

    exit_code: ClassVar[int] = ExitCode.ABORTED
    code: ClassVar[str] = "path-refused"


class HostKeyUnknown(HostError):
    """The host key is not in known_hosts; the message has the fingerprint, the fix accepts it."""

    code: ClassVar[str] = "HOST005"


class HostKeyChanged(HostError):
    """The host key differs from the one in known_hosts. Never accepted by any option."""

    code: ClassVar[str] = "HOST006"


class AuthenticationFailed(HostError):
    """No method was accepted; the message names the methods and keys that were tried."""

    code: ClassVar[str] = "HOST007"


class HostNotContacted(HostError):
    """A host that only a run's record names; gpulaunch has not logged in to it."""


class PythonNotFound(HostError):
    """The configured interpreter does not exist on the host, or is older than 3.9."""

    code: ClassVar[str] = "HOST008"


class AgentCrashed(HostError):
    """The agent ended with an error; the message has its last lines."""

    code: ClassVar[str] = "HOST009"


class AgentProtocolError(HostError):
    """What came back is not an answer of the agent."""

    code: ClassVar[str] = "HOST010"


class AgentTimedOut(HostError):
    """The agent did not answer within its deadline."""

    code: ClassVar[str] = "HOST011"


class LoginShellDisabled(HostError):
    """The account on the host runs no programs: its login shell (nologin, false) started no interpreter."""

    code: ClassVar[str] = "HOST012"


class CommandMissing(HostError):
    """The command of the host's `via:` (docker, kubectl, ...) is not installed where it is to run."""

    code: ClassVar[str] = "HOST013"


class ContainerNotRunning(HostError):
    """The container of the host's `via:` is absent, stopped or paused."""

    code: ClassVar[str] = "HOST014"


class ContainerStopped(ContainerNotRunning):
    """The container has ended or is gone, and with it every process that it had."""


class ContainersRefused(HostError):
    """docker, podman or a cluster refuses: no permission, or its service is down."""

    code: ClassVar[str] = "HOST015"


class PrefixFailed(HostError):
    """The command of the host's `via:` started nothing, or changes the bytes that it carries."""

    code: ClassVar[str] = "HOST016"


class CommandNotAllowed(HostError):
    """A project's hosts.yaml names a command to run, and the user has not allowed it."""

    code: ClassVar[str] = "HOST017"


class HostsUnusable(GpulaunchError):
    """Several hosts could not be used, each for a reason of its own; the message has a line for each."""

    exit_code: ClassVar[int] = ExitCode.UNREACHABLE
    code: ClassVar[str] = "hosts"

    def __init__(self, errors: Sequence[HostError], message: str, fix: str = "") -> None:
        super().__init__(message, fix)
        self.hosts = tuple(error.host for error in errors)


class LaunchRefused(GpulaunchError):
    """Findings stop the launch."""

    exit_code: ClassVar[int] = ExitCode.NEGATIVE
    code: ClassVar[str] = "refused"


class GpusBusy(LaunchRefused):
    """Nothing but GPUs that others use stops the launch: they may be free later."""

    code: ClassVar[str] = "gpus-busy"


class WaitTimedOut(GpulaunchError):
    """The GPUs were not free within the time of `run --wait`; nothing was started."""

    exit_code: ClassVar[int] = ExitCode.WAIT_TIMED_OUT
    code: ClassVar[str] = "wait-timed-out"


class RunAlreadyEnded(GpulaunchError):
    """The run has ended, and what was asked of it needs living ranks."""

    exit_code: ClassVar[int] = ExitCode.NEGATIVE
    code: ClassVar[str] = "run-over"


class VerificationFailed(GpulaunchError):
    """The ranks are not what was planned; the launch was stopped."""

    exit_code: ClassVar[int] = ExitCode.VERIFICATION_FAILED
    code: ClassVar[str] = "verification-failed"


class BadNodeError(GpulaunchError):
    """A node of a Slurm job is bad, and no spare of the job takes its place."""

    exit_code: ClassVar[int] = ExitCode.BAD_NODE
    code: ClassVar[str] = "bad-node"


class SlurmError(GpulaunchError):
    """A command of Slurm has failed; the message has its last words."""

    exit_code: ClassVar[int] = ExitCode.ABORTED
    code: ClassVar[str] = "slurm"


class RunAborted(GpulaunchError):
    """The run could not be carried through for a reason other than a rank's own exit."""

    exit_code: ClassVar[int] = ExitCode.ABORTED
    code: ClassVar[str] = "aborted"


class SyncFailed(RunAborted):
    """The tree could not be read locally, or could not be written on a host; nothing has been launched."""
