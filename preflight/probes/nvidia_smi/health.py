"""Memory errors, reasons for low clocks, and what a GPU needs to recover, as nvidia-smi prints them."""

import re
from collections.abc import Callable
from typing import Any

from ..fact import Json
from ..gpu_enums import THROTTLE
from .values import (
    NOT_HELD,
    convert_value,
    find_text,
    find_value,
    parse_whole,
    parse_yes,
    reject_wording,
    require_all,
)


def parse_ecc(gpu: Json) -> Any:
    """Return facts.Ecc: the totals of drivers before 450, the sums over memories of later ones."""

    def total(since: str, word: str, old: str) -> Any:
        group = (gpu.get("ecc_errors") or {}).get(since) if isinstance(gpu.get("ecc_errors"), dict) else None
        if not isinstance(group, dict):
            return NOT_HELD
        keys = [key for key in group if re.match(r"[sd]ram_%s" % word, key) and isinstance(group[key], str)]
        old_total = find_text(group, old + "/total")
        texts = [group[key] for key in keys] or ([old_total] if old_total is not None else [])
        values = [convert_value(text, parse_whole) for text in texts]
        known = [value for value in values if isinstance(value, int)]
        is_split = any("_parity" in key or "_sec" in key for key in keys)
        if keys and len(keys) < 2 + is_split and not any(known):
            return NOT_HELD  # a line of them is lost, which may be the one that is not 0
        return sum(known) if known else (values[0] if values else NOT_HELD)

    enabled = find_value(gpu, parse_yes, "ecc_mode/current_ecc", "ecc_mode/current")
    counts = {
        "corrected_volatile": total("volatile", "correctable", "single_bit"),
        "uncorrected_volatile": total("volatile", "uncorrectable", "double_bit"),
        "uncorrected_aggregate": total("aggregate", "uncorrectable", "double_bit"),
    }
    if enabled == NOT_HELD and any(isinstance(count, int) for count in counts.values()):
        enabled = True  # where it is off no errors are counted
    return enabled if isinstance(enabled, dict) else {"enabled": enabled, **counts}


def parse_remap(gpu: Json) -> Any:
    """Return facts.RowRemap."""
    if isinstance(gpu.get("remapped_rows"), str):
        return convert_value(gpu["remapped_rows"], reject_wording)

    def at(convert: Callable[[str], Any], *names: str) -> Any:
        return find_value(gpu, convert, *["remapped_rows/" + name for name in names])

    counts = {
        "correctable": at(parse_whole, "remapped_row_corr", "correctable_error"),
        "uncorrectable": at(parse_whole, "remapped_row_unc", "uncorrectable_error"),
    }
    flags = {
        "pending": at(_flag, "remapped_row_pending", "pending"),
        "failed": at(_flag, "remapped_row_failure", "remapping_failure_occurred"),
    }
    unread = require_all(flags)
    return {**counts, **flags} if unread is flags or True in flags.values() else unread


def _flag(text: str) -> bool:
    """Return the truth of Yes and No, which `--query-remapped-rows` prints as 1 and 0."""
    return text == "1" if text in ("0", "1") else parse_yes(text)


def parse_retired_pages(gpu: Json) -> Any:
    """Return facts.RetiredPages."""

    def at(convert: Callable[[str], Any], *names: str) -> Any:
        return find_value(gpu, convert, *["retired_pages/" + name for name in names])

    single = at(parse_whole, "multiple_single_bit_retirement/retired_count", "single_bit_ecc")
    double = at(parse_whole, "double_bit_retirement/retired_count", "double_bit_ecc")
    counts = require_all({"single_bit": single, "double_bit": double})
    if "missing" in counts:
        return counts
    return {**counts, "pending": at(parse_yes, "pending_retirement", "pending_page_blacklist", "pending")}


_THROTTLE_WORDS = {
    **{name: name for _, name in THROTTLE},
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications_clocks",
    "sw_thermal_slowdown": "sw_thermal",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "display_clock_setting": "display_clocks",
    "display_clocks_setting": "display_clocks",
}
_ALWAYS = frozenset({"idle", "sw_power_cap", "hw_slowdown"})
_SLOWED = frozenset({"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal"})
_SINCE_387 = _ALWAYS | _SLOWED
"""The reasons that drivers print, all of them or none. Driver 384 has sw_thermal of the later ones alone."""
_LATER = frozenset({"hw_thermal", "hw_power_brake", "display_clocks"})
_BELOW = ("sync_boost", "unknown")
"""Words of which drivers print one below the first four, even where they print none of the later ones."""
ASKED = "@asked"  # key of a group of which only some reasons were asked for


def parse_throttle(gpu: Json) -> Any:
    """Return the active reasons for lower clocks."""
    group = gpu.get("clocks_event_reasons", gpu.get("clocks_throttle_reasons"))
    if not isinstance(group, dict):
        return convert_value(group, reject_wording)
    words = {re.sub(r"^clocks_(event|throttle)_reason_", "", key): text for key, text in group.items()}
    known = {_THROTTLE_WORDS[key]: text for key, text in words.items() if key in _THROTTLE_WORDS}
    unread = [text for text in known.values() if text not in ("Active", "Not Active")]
    if unread or not known:
        return convert_value(unread[0] if unread else None, reject_wording)
    printed = _SINCE_387 if known.keys() & _LATER else _ALWAYS
    is_whole = known.keys() >= printed and not words.keys().isdisjoint(_BELOW)
    active = {name for name, text in known.items() if text == "Active"}
    if ASKED not in group and not is_whole and not active & _SLOWED:
        return NOT_HELD  # a line of them is lost, which may be one that is active
    return [name for _, name in THROTTLE if name in active]


def parse_recovery(gpu: Json) -> Any:
    """Return the recovery action; before driver 570 only that a reset is required can be said."""
    text = find_text(gpu, "gpu_recovery_action")
    if text is not None:
        return convert_value(text, _action)
    if find_text(gpu, "gpu_reset_status/reset_required") == "Yes":
        return "gpu_reset"
    if find_text(gpu, "gpu_reset_status/drain_and_reset_recommended") == "Yes":
        return "drain_and_reset"
    return NOT_HELD


def _action(text: str) -> Any:
    word = re.sub(r"[^a-z0-9]+", "_", text.lower())
    if word != "none" and "none".startswith(word):
        return reject_wording(text)  # cut off, and a healthy GPU's
    return {"reset": "gpu_reset", "reboot": "node_reboot"}.get(word, word)
