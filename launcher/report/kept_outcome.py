"""How a run ended by what is kept locally, put in place of what its hosts still know of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from launcher.follow.outcome import EndCause, Outcome, Verdict, Verification
from launcher.safe_json import read_mapping, read_mappings


def is_whole(kept: Mapping[str, Any]) -> bool:
    """Return whether a client that kept this outcome had heard the end of every host."""
    known = kept.get("verdict") in get_args(Verdict) and isinstance(kept.get("exit_code"), int)
    return known and kept.get("lost_hosts") == {}


def restore_outcome(seen: Outcome, kept: Mapping[str, Any]) -> Outcome:
    """Return the outcome that was kept, one that `is_whole`, beside what its hosts have reported now."""
    ended = ((each.get("rank"), each.get("code")) for each in read_mappings(kept.get("ranks")))
    known = {rank: code for rank, code in ended if isinstance(rank, int) and isinstance(code, int)}
    verified = read_mapping(kept.get("verified"))
    return replace(
        seen,
        verdict=kept["verdict"],
        exit_code=kept["exit_code"],
        why=str(kept.get("why") or ""),
        cause=seen.cause if kept["verdict"] == "failed" else EndCause(),
        ranks=tuple(replace(each, code=known.get(each.rank, each.code)) for each in seen.ranks),
        verification=Verification(
            tuple(map(str, _items(verified, "mismatches"))),
            verified.get("world_ranks_devices") is True,
            verified.get("mixed_precision") is True,
            _ranks(verified, "unreported_ranks"),
            _ranks(verified, "ranks_without_device"),
        ),
        cleanup=replace(seen.cleanup, lost={}),
    )


def _items(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    return value if isinstance(value, list) else []


def _ranks(document: Mapping[str, Any], key: str) -> tuple[int, ...]:
    return tuple(each for each in _items(document, key) if isinstance(each, int))
