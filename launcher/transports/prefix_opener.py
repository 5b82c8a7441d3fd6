"""From an endpoint behind a prefix to its connection: the base is opened, the prefix found and tried."""

from collections.abc import Callable

from launcher import errors
from launcher.config.via_options import COMMAND
from launcher.transports.base import Connection, Endpoint, OpenOptions
from launcher.transports.command_consent import find_consent
from launcher.transports.container import Runtime
from launcher.transports.prefix import PrefixConnection, read_prefix

_ENDED = ("(notfound)", "container in a completed pod")
_FORBIDDEN = "(forbidden)"
_NO_CLUSTER = (
    "the connection to the server",
    "unable to connect to the server",
    "context was not found",
    "error in configuration",
    "(unauthorized)",
    "you must be logged in to the server",
    "please enter username",
)
"""What kubectl says that reaches no cluster, or is not known to it (kubectl 1.32)."""
Open = Callable[[Endpoint, OpenOptions], Connection]


def open_prefix(endpoint: Endpoint, options: OpenOptions, open_base: Open) -> Connection:
    """Open the base, then what `via` says on top of it. Raises HostError; nothing stays open then.

    Raises CommandNotAllowed before anything runs, where a command would run without consent.
    """
    via, base_endpoint = endpoint.via, endpoint.base
    if via is None or base_endpoint is None:
        raise AssertionError("an endpoint of this transport has both")
    if via.kind == COMMAND:
        find_consent(options).demand(endpoint)
    base = open_base(base_endpoint, options)
    try:
        if via.is_on_host:
            return PrefixConnection(endpoint.name, base, Runtime(endpoint.name, via, base).prefix())
        connection = PrefixConnection(endpoint.name, base, read_prefix(via, endpoint.address))
        connection.demand_bytes()
    except errors.ProgramNotStarted as failure:
        base.close()
        raise errors.CommandMissing(endpoint.name, failure.detail) from None
    except errors.PrefixFailed as failure:
        base.close()
        raise _of_pod(failure) if via.kind == "kubectl" else failure from None
    except BaseException:
        base.close()
        raise
    return connection


def _of_pod(failure: errors.PrefixFailed) -> errors.HostError:
    """Return what kubectl's words mean. "container not found" comes from slow pods too, and may pass."""
    words = failure.detail.lower()
    if any(each in words for each in _ENDED):
        return errors.ContainerStopped(
            failure.host, failure.detail, "`kubectl get pods` lists those that run"
        )
    if _FORBIDDEN in words:
        return errors.ContainersRefused(failure.host, failure.detail, "ask for the right to create pods/exec")
    if any(each in words for each in _NO_CLUSTER):
        fix = "`kubectl get pods` must work where gpulaunch runs it: KUBECONFIG, `context:` of via, a login"
        return errors.ContainersRefused(failure.host, failure.detail, fix)
    return failure
