"""Claims: which GPUs live runs of gpulaunch hold on this host, of any user."""

from collections.abc import Iterator

from preflight.checks.finding import Problem
from preflight.checks.message_text import round_duration
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import unchecked
from preflight.facts.gpu import Gpu, GpuClaim
from preflight.facts.host import HostFacts, Identity
from preflight.facts.missing import Missing


@host_check("PROC005", gpu_only=True, reads=("claims",))
def no_other_run_claims_the_gpus(facts: HostFacts, gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """No other live run of gpulaunch holds a GPU that the job uses.

    A run claims its GPUs before its launcher starts, so this reports a neighbour whose ranks have not
    opened the GPU yet and whom the driver's process list cannot show. A claim is believed while the run's
    supervisor holds the lock on its file, which only the file's owner can take; what a dead run left
    says nothing.

    Fix: wait for that run, `gpulaunch stop RUN` if it is yours, or use other GPUs with --gpus.
    Source: /tmp/gpulaunch-claim-*, F_OFD_GETLK of fcntl(2).
    """
    claims = facts.claims
    if isinstance(claims, Missing):
        if claims.code != "not-asked":  # a recording of a version without claims
            yield unchecked("claims of other runs", claims)
        return
    for gpu in gpus:
        for claim in claims:
            if claim.gpu_uuid == gpu.uuid:
                yield Problem(_message(facts, claim), advise_on_claim(facts, claim), gpu=gpu.index)


def _message(facts: HostFacts, claim: GpuClaim) -> str:
    now = facts.identity.now_unix if isinstance(facts.identity, Identity) else claim.since_unix
    run = f"run {claim.run_id}" if claim.run_id else "a run that does not say its name"
    return f"claimed by {run} of {claim.user}, {round_duration(max(0.0, now - claim.since_unix))} ago"


def advise_on_claim(facts: HostFacts, claim: GpuClaim) -> str:
    """Return what the owner of a claim, or another user, can do about it."""
    mine = isinstance(facts.identity, Identity) and facts.identity.uid == claim.uid
    if mine and claim.run_id:
        return f"gpulaunch stop {claim.run_id}, wait for it to end, or use other GPUs with --gpus"
    return f"wait for it to end, ask {claim.user}, or use other GPUs with --gpus"
