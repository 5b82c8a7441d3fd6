"""`before_stop:` of a run config: what ranks get, and how long they have, before a run is stopped."""

from launcher.config.value_types import Field, Keyword, Section, duration
from preflight.frozen import dataclass

SIGNALS = ("TERM", "USR1", "USR2", "INT", "HUP")
ALL_RANKS, RANK_0 = "all", "0"
DEFAULT_WAIT_S = 300.0
LEAST_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class BeforeStop:
    """The signal, the ranks that get it, and how long these have to end by themselves."""

    signal: str = "TERM"
    ranks: str = ALL_RANKS
    wait_s: float = DEFAULT_WAIT_S

    @property
    def text(self) -> str:
        """What a message says of it."""
        ranks = "rank 0" if self.ranks == RANK_0 else "all ranks"
        return f"SIG{self.signal} to {ranks}, up to {self.wait_s:g} s"

    def environment(self) -> dict[str, str]:
        """Return what lets torch's elastic launcher wait as long: it kills 30 s after its own SIGTERM.

        torch/distributed/run.py (--shutdown-timeout, from PET_SHUTDOWN_TIMEOUT) and
        torch/distributed/launcher/api.py (LaunchConfig), torch 2.13.
        """
        seconds = str(int(self.wait_s) + 1)
        return {"PET_SHUTDOWN_TIMEOUT": seconds, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": seconds}


# fmt: off
BEFORE_STOP_KEYS: tuple[Field, ...] = (
    Field("signal", Keyword(SIGNALS), "The signal, without SIG.", "USR1", "TERM"),
    Field("ranks", Keyword((ALL_RANKS, RANK_0)), "Which ranks get it; 0: only rank 0, which saves for all.",
          "0", ALL_RANKS),
    Field("wait_s", duration(LEAST_WAIT_S), "How long they have; the run ends as soon as they have.", "5m",
          f"{DEFAULT_WAIT_S:g}"),
)
# fmt: on
BEFORE_STOP = Section(BEFORE_STOP_KEYS, "a mapping of signal, ranks and wait_s", make=BeforeStop)
