"""Every check on the real board, and some of them where we cause what they look for."""

import json
import socket
from typing import Any

from preflight.checks.finding import Severity
from preflight.checks.runner import check_host, load_checks
from preflight.job import Expect, Job
from tests.gpu.board import Board
from tests.gpu.cases.facts import record
from tests.gpu.launches import Ended, Launch
from tests.gpu.ledger import CannotRun, Ledger
from tests.gpu.programs import holder

CRASH = "the check itself failed"
HELD_MIB = 1024


def look_at_rest(board: Board, ledger: Ledger) -> None:
    """Nothing stops a launch on this machine as it is; what does is ignored by the cases that follow."""
    place = Launch(board)
    place.configure()
    ended = place.run("--dry-run", "--json", limit_s=60)
    findings = ended.document.get("findings", [])
    stopping = [f for f in findings if f["blocks_launch"] and not f["ignored"]]
    words = "; ".join(f"{f['code']} {f['message']}" for f in stopping)
    ledger.check("findings that stop a launch", words or "none", ok=not stopping, expected="none")
    place.ignore_from_now_on(sorted({f["code"] for f in stopping}))


def judge_board(board: Board, ledger: Ledger) -> None:
    """Run every check on this machine's facts; a check that crashes is wrong, what it finds is noted."""
    facts = record(board)
    findings = check_host(facts, Job(gpus="auto"), Expect())
    by_code: dict[str, list[str]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(f"{finding.severity.value}: {finding.message}")
    crashed = [finding.code for finding in findings if finding.message.startswith(CRASH)]
    for code, check in load_checks().items():
        if check.scope == "host":
            ledger.note(code, "; ".join(by_code.get(code, ["ok"])))
    ledger.equal("checks that crashed", crashed or "none", "none")
    unknown = sorted({f.code for f in findings if f.severity is Severity.UNKNOWN})
    ledger.note("checks that could not be made", ", ".join(unknown) or "none")
    place = Launch(board, "preflight")
    ended = place.command("preflight", "localhost", "--json")
    bad = any(f["severity"] in ("critical", "unknown") and not f["ignored"] for f in list_findings(ended))
    ledger.equal("exit code of preflight", ended.code, 1 if bad else 0)


def cause_findings(board: Board, ledger: Ledger) -> None:
    """A GPU that is held, a port that is taken, more GPUs than there are."""
    place = Launch(board, "preflight")
    before = codes(place.command("preflight", "localhost", "--json"))
    ledger.note("findings of the machine at rest", ", ".join(sorted(before)) or "none")
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        place.configure(main_port=port)
        found = codes(place.command("preflight", "-c", "job.yaml", "--json"))
        ledger.check(
            "a main port that is taken", sorted(found - before), ok="PORT001" in found, expected="PORT001"
        )
    place.configure(gpus=99)
    ended = place.command("run", "-c", "job.yaml", "--dry-run", "--json")
    ledger.check(
        "99 GPUs asked for", ended.last_words, ok=ended.code not in (0, 70), expected="an error that says so"
    )
    try:
        board.need_torch()
    except CannotRun as reason:
        ledger.unable("a GPU that is held", str(reason))
        return
    with holder(board, HELD_MIB) as (_, about):
        ended = place.command("preflight", "localhost", "--json")
        named = [
            f for f in list_findings(ended) if f["code"] not in before and str(about["pid"]) in json.dumps(f)
        ]
        shown = ", ".join(f"{f['code']} {f['message']}" for f in named)
        ledger.check(
            "a GPU that is held", shown, ok=bool(named), expected=f"a finding that names pid {about['pid']}"
        )


def list_findings(ended: Ended) -> list[dict[str, Any]]:
    return list(ended.document["findings"])


def codes(ended: Ended) -> set[str]:
    """Return the codes of what a preflight found."""
    return {finding["code"] for finding in list_findings(ended)}
