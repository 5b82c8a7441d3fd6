"""One question to a host's run directories, one answer."""

from collections.abc import Mapping
from typing import Any

from launcher.errors import AgentProtocolError, BadInput, CommandTimedOut, HostError
from launcher.follow import protocol
from launcher.remote.shell_errors import explain_no_answer
from launcher.rundir.state_schema import validate_answer
from launcher.text import one_line, tail_lines
from launcher.transports.base import Connection

ANSWER_S = 60.0


class RequestDenied(BadInput):
    """The host has answered that it cannot do what was asked; `detail` says why."""

    def __init__(self, host: str, refusal: object, fix: object = "") -> None:
        detail = one_line(str(refusal), 300)
        super().__init__(f"{host}: {detail}", one_line(str(fix), 300))
        self.detail = detail


def send_request(
    connection: Connection, python: str, document: Mapping[str, Any], *, timeout_s: float = ANSWER_S
) -> dict[str, Any]:
    """Return the answer to one request. Raises RequestDenied by the host, HostError without an answer."""
    mode = str(document["mode"])
    argv = protocol.build_supervisor_argv(python, mode, str(document.get("run_id", "-")))
    try:
        done = connection.run(
            argv, stdin=protocol.encode_request(document), timeout_s=timeout_s, is_whole=protocol.has_answer
        )
    except CommandTimedOut as late:
        what = f"gpulaunch could log in, and got no answer within {timeout_s:g} s"
        login = connection.command_line(("uptime",))
        fix = late.fix.replace(f"ssh {connection.name} uptime", login)
        raise CommandTimedOut(connection.name, what, fix) from None
    reader = protocol.FrameReader()
    try:
        for frame in reader.feed(done.stdout):
            if "refused" in frame.header:
                raise RequestDenied(connection.name, frame.header["refused"], frame.header.get("fix", ""))
            return dict(frame.header)
    except protocol.ProtocolError as error:
        raise HostError(connection.name, f"its answer cannot be read: {error}") from None
    refusal = explain_no_answer(
        connection.name,
        python,
        done.exit_status,
        stderr=done.stderr,
        noise=reader.preamble,
        connection=connection,
    )
    said = tail_lines(done.stderr or reader.preamble)
    words = f"{python} gave no answer (exit status {done.exit_status})"
    raise refusal or HostError(connection.name, words + (f": {said}" if said else ""))


def request_state(
    connection: Connection, python: str, document: Mapping[str, Any], *, timeout_s: float = ANSWER_S
) -> dict[str, Any]:
    """Ask for what is answered with the `state` of a run and if it is `alive`. Raises as send_request."""
    answer = send_request(connection, python, document, timeout_s=timeout_s)
    misfit = validate_answer(answer)
    if misfit:
        words = f"what it reports of the run is not understood: {one_line(misfit, 160)}"
        raise AgentProtocolError(connection.name, words)
    return answer
