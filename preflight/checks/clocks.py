"""Whether the clocks of the hosts agree."""

from collections.abc import Iterator, Mapping

from preflight.checks.finding import Problem, Severity
from preflight.checks.message_text import round_duration
from preflight.checks.registry import ClockOffset, cluster_check
from preflight.facts.host import HostFacts
from preflight.job import Expect

_SAID_IN_SECONDS = 600.0


@cluster_check("SYS003", Severity.WARNING)
def clocks_agree(
    hosts: Mapping[str, HostFacts], clocks: Mapping[str, ClockOffset], expect: Mapping[str, Expect]
) -> Iterator[Problem]:
    """The hosts' clocks agree.

    Logs of different hosts cannot be put in order, certificates and caches expire, file times mislead make
    and rsync.

    Fix: root: `timedatectl set-ntp true`, or `chronyc makestep` where chrony keeps the time.
    Source: each host's time against the client's, allowing for the time the answer took; `clock_skew_s`.
    """
    bounds = {name: clocks[name] for name in hosts if name in clocks}
    if len(bounds) < 2:
        return
    # The client is one more clock: where two hosts differ, it shows which of them is off. The time of most is
    # between the two middles, not halfway: of hosts asked late in a long round, `high` is far off.
    lows, highs = (sorted(times) for times in zip((0.0, 0.0), *bounds.values(), strict=True))
    middle_low, middle_high = lows[len(lows) // 2], highs[len(highs) // 2]
    for name, (low, high) in bounds.items():
        ahead, behind = low - middle_high, middle_low - high
        off = max(ahead, behind)
        if off > expect.get(name, Expect()).clock_skew_s:
            word = "ahead of" if ahead > behind else "behind"
            amount = f"at least {off:.0f} s" if off < _SAID_IN_SECONDS else f"about {round_duration(off)}"
            yield Problem(
                f"its clock is {amount} {word} the others'",
                "sudo timedatectl set-ntp true   (where chrony runs: sudo chronyc makestep)",
                hosts=(name,),
            )
