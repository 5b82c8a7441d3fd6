"""A running container as a host: found by its name, entered by `docker exec` or `podman exec`."""

import shlex
from typing import NoReturn

from launcher import errors
from launcher.config.via_options import Via, fill_places
from launcher.text import name_first, sanitize, tail_lines
from launcher.transports.base import CommandResult, Connection
from launcher.transports.prefix import Prefix
from preflight import regex as re
from preflight.frozen import dataclass

_ASK_S = 30.0
_STATE = "{{.Id}} {{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}"
_ENDED = ("exited", "stopped", "dead", "removing")
_STATE_LINE = re.compile(r"([0-9a-f]{12,64}) ([a-z]+) (-?[0-9]+) (true|false)")
"""Its id, created|running|paused|restarting|removing|exited|dead, exit code, whether memory ran out."""
_NAMES = "{{.Names}}"
_NAME_LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,-]*")
_NOT_FOUND = 127
_NO_RIGHTS = ("permission denied", "operation not permitted", "password is required", "may not run sudo")
_NO_DAEMON = ("cannot connect", "connection refused", "is the docker daemon running", "dial unix")
_ABSENT = ("no such container", "no such object", "no container with name")
_SHOWN_NAMES = 8


@dataclass(frozen=True, slots=True)
class Runtime:
    """docker or podman of one host, asked over an open connection."""

    host: str
    via: Via
    base: Connection

    @property
    def words(self) -> tuple[str, ...]:
        """The command, with sudo where `via:` says so; it asks for no password."""
        return (*(("sudo", "-n") if self.via.option("sudo") == "true" else ()), self.via.kind)

    def prefix(self) -> Prefix:
        """Return what enters the container. Raises HostError where it does not run or cannot be asked.

        The prefix names the id, so that a new container under the old name is not entered unseen.
        """
        name = fill_places(self.via.name, self.host) or self._only_one()
        user = self.via.option("user")
        return Prefix((*self.words, "exec", "-i", *(("-u", user) if user else ()), self._running_id(name)))

    def _running_id(self, name: str) -> str:
        done = self._ask("container", "inspect", "--format", _STATE, name)
        if done.exit_status != 0:
            self._refuse(done, name)
        lines = [_STATE_LINE.fullmatch(line.strip()) for line in sanitize(done.stdout).splitlines()]
        found = next((line for line in reversed(lines) if line), None)
        if found is None:
            raise errors.PrefixFailed(
                self.host, f"{self._shown} said nothing of {name}'s state: {tail_lines(done.stdout, 2)}"
            )
        container, status, code, out_of_memory = found.groups()
        if status == "running":
            return container
        raise self._not_running(name, status, int(code), out_of_memory=out_of_memory == "true")

    def _not_running(
        self, name: str, status: str, code: int, *, out_of_memory: bool
    ) -> errors.ContainerNotRunning:
        how = status
        if status in ("exited", "stopped"):
            how = f"exited with status {code}"
            how += f", signal {code - 128}" if 128 < code < 160 else ""
            how += ", out of memory" if out_of_memory else ""
        verb = "unpause" if status == "paused" else "start"
        fix = f"on {self.host}: {self._shown} {verb} {name}"
        kind = errors.ContainerStopped if status in _ENDED else errors.ContainerNotRunning
        return kind(self.host, f"container {name} is not running: {how}", fix)

    def _only_one(self) -> str:
        done = self._ask("ps", "--format", _NAMES)
        if done.exit_status != 0:
            self._refuse(done, "")
        names = _names(done)
        if len(names) == 1:
            return names[0].partition(",")[0]
        shown = name_first(names, _SHOWN_NAMES)
        what = f"{len(names)} containers run: {shown}" if names else "no container runs"
        fix = f"name it: via: {{{self.via.kind}: NAME}}" if names else f"{self._shown} ps -a lists them all"
        raise errors.ContainerNotRunning(self.host, what, fix)

    def _ask(self, *words: str) -> CommandResult:
        try:
            return self.base.run((*self.words, *words), timeout_s=_ASK_S, max_output=4 << 20)
        except errors.HostError as failure:
            raise type(failure)(self.host, f"{self._shown}: {failure.detail}", failure.fix) from None

    def _refuse(self, done: CommandResult, name: str) -> NoReturn:
        """Raise what a runtime's failure means, by its words: their exit statuses are the same for all."""
        said, words = tail_lines(done.stderr, 2), done.stderr.decode(errors="replace").lower()
        if any(each in words for each in _ABSENT):
            raise self._absent(name)
        if any(each in words for each in _NO_RIGHTS):
            fix = "ask for the group `docker`, or write `sudo: true` where sudo needs no password"
            raise errors.ContainersRefused(self.host, f"{self._shown} is not permitted: {said}", fix)
        if any(each in words for each in _NO_DAEMON):
            fix = f"is its service up? On {self.host}: systemctl status {self.via.kind}"
            raise errors.ContainersRefused(self.host, f"{self._shown} has no service to talk to: {said}", fix)
        if done.exit_status == _NOT_FOUND:
            fix = f"install {self.words[0]}, or add it to the PATH of a shell that ssh starts"
            if self.words[0] != self.via.kind:
                fix += f"; without `sudo: true` {self.via.kind} is started as the user of ssh"
            raise errors.CommandMissing(self.host, f"{self.words[0]} cannot be started: {said}", fix)
        what = f"{self._shown} ended with status {done.exit_status}: {said}"
        raise errors.PrefixFailed(self.host, what, f"`{self._shown} ps` has to work on {self.host}")

    def _absent(self, name: str) -> errors.ContainerNotRunning:
        done = self._ask("ps", "--format", _NAMES)
        names = name_first(_names(done), _SHOWN_NAMES) if done.exit_status == 0 else ""
        fix = f"running now: {names}" if names else f"{self._shown} ps -a lists all of them"
        if self.via.kind == "podman":
            fix += "; podman shows to each user that user's own"
        return errors.ContainerStopped(self.host, f"there is no container {name}", fix)

    @property
    def _shown(self) -> str:
        return shlex.join(self.words)


def _names(done: CommandResult) -> list[str]:
    lines = (line.strip() for line in sanitize(done.stdout).splitlines())
    return [line for line in lines if _NAME_LINE.fullmatch(line)]
