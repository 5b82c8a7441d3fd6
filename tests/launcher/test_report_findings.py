"""What people and programs read after a preflight."""

import json
import random
import socket
from dataclasses import replace

import pytest

from launcher.commands._preflight_report import shorten_error
from launcher.config.inventory import HostEntry
from launcher.config.node_sets import format_host_range
from launcher.errors import (
    AuthenticationFailed,
    ConnectionRefused,
    ConnectionTimedOut,
    HostError,
    LaunchRefused,
    NameNotResolved,
)
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.merged_findings import merge_findings
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.render_json import encode_preflight, find_worst_severity
from launcher.host_checks.render_text import (
    group_findings,
    render_finding_list,
    render_report,
    summarize_host,
)
from launcher.host_checks.result import LaunchPreview, PreflightResult
from launcher.remote.agent import GatherResult
from launcher.terminal.cell_width import paint_line
from launcher.transports.base import Endpoint
from launcher.transports.ssh.dial import dial
from preflight.checks.finding import Finding, Severity
from preflight.checks.runner import check_host
from preflight.facts.host import HostFacts, PathFacts, Reach
from preflight.facts.missing import Missing, MissingCode
from preflight.job import Expect, Job
from tests.preflight.golden_cases import host
from tests.preflight.scenes import Scene

RESET: dict[str, object] = {"gpus.0.recovery_action": "gpu_reset"}


def result_of(
    overlays: dict[str, dict[str, object]],
    errors: dict[str, HostError] | None = None,
    options: PreflightOptions | None = None,
) -> PreflightResult:
    facts: dict[str, HostFacts] = {name: host(overlay, name) for name, overlay in overlays.items()}
    names = [*overlays, *(errors or {})]
    main = names[0]
    reach = tuple(Reach(name, main, "10.0.0.5", 29500, ok=True, error="", ms=0.3) for name in names[1:])
    entries = [HostEntry(name) for name in names]
    return evaluate_facts(entries, GatherResult(facts, errors or {}), Job(), reach=reach, options=options)


def text(result: PreflightResult) -> str:
    return "\n".join(paint_line(line, colour=False) for line in render_report(result))


def test_equal_hosts_that_are_well_are_one_line() -> None:
    lines = text(result_of({f"l40s-{i:02}": {} for i in range(1, 8)})).splitlines()
    assert lines[0].startswith("OK        l40s-[01-07]: 2x NVIDIA L40S, driver 595.80, torch 2.13.0+cu130")
    assert lines[-1] == "7 hosts: ok"


@pytest.mark.parametrize(
    ("code", "said"), [("timeout", "GPUs not read"), ("no-devices", "no GPU"), ("no-library", "no GPU")]
)
def test_gpus_that_cannot_be_read_are_not_absent(code: MissingCode, said: str) -> None:
    assert summarize_host(replace(host(), gpus=Missing("why", code))).startswith(said)


def test_hosts_with_an_ssh_command_each_are_one_finding_with_the_command_of_the_first() -> None:
    fix = "is root the right user? Else: ssh-copy-id -p {} root@192.0.2.1"
    errors: dict[str, HostError] = {
        f"n{i}": AuthenticationFailed(f"n{i}", "not let in", fix.format(40000 + i)) for i in range(1, 5)
    }
    said = text(result_of({}, errors))
    assert "HOST007 on n[1-4]: not let in" in said
    assert said.count("ssh-copy-id") == said.count("ssh-copy-id -p 40001 root@") == 1


def test_hosts_that_do_not_answer_are_one_finding_whatever_their_addresses() -> None:
    errors: dict[str, HostError] = {
        f"n{number}": ConnectionRefused(f"n{number}", f"10.0.0.{number} port 22 refused the connection")
        for number in (1, 2, 3, 9)
    }
    errors["n4"] = ConnectionRefused("n4", "10.0.0.4 port 22 refused the connection from 10.0.0.1")
    said = text(result_of({}, errors))
    assert "HOST003 on n[1-3,9]: 10.0.0.[1-3,9] port 22 refused the connection" in said
    assert "HOST003 on n4: 10.0.0.4 port 22 refused the connection from 10.0.0.1" in said


@pytest.mark.parametrize("makes", [False, True])
def test_a_directory_that_the_sync_makes_is_not_missed(makes: bool) -> None:  # noqa: FBT001
    unread = Missing("not asked", "not-asked")
    absent = PathFacts("workdir", "~/x", "/h/x", False, True, unread, unread, unread, unread, unread)
    facts = replace(host({}, "a"), paths=(absent,))
    options = PreflightOptions(makes_workdir=makes)
    result = evaluate_facts([HostEntry("a")], GatherResult({"a": facts}, {}), Job(), options=options)
    assert ("DISK001" in {each.code for each in result.findings}) is not makes


def test_equal_findings_are_folded_over_hosts() -> None:
    said = text(result_of({f"l40s-{i:02}": RESET for i in range(1, 8)}))
    assert said.count("HEAL001") == 1
    assert "CRITICAL  HEAL001 on l40s-[01-07] gpu0: the driver asks for recovery: gpu reset" in said


def test_neighbours_with_one_fix_show_it_once_below_the_last() -> None:
    ends = "gpulaunch clean-zombies a"
    findings = [
        Finding("PROC001", Severity.CRITICAL, ("a",), subject, f"pid {pid}", fix)
        for pid, subject, fix in ((10, "gpu0", ends), (12, "gpu1", ends), (13, "gpu2", "two\nlines"))
    ]
    assert [paint_line(line, colour=False) for line in render_finding_list(findings)] == [
        "CRITICAL  PROC001 on a gpu0: pid 10",
        "CRITICAL  PROC001 on a gpu1: pid 12",
        "            fix of these 2: gpulaunch clean-zombies a",
        "CRITICAL  PROC001 on a gpu2: pid 13",
        "            fix: two",
        "                 lines",
    ]


def test_an_ignored_finding_shows_no_fix() -> None:
    ignored = Finding("PROC001", Severity.WARNING, ("a",), "", "pid 10", "end it", ignored=True)
    assert [paint_line(line, colour=False) for line in render_finding_list([ignored])] == [
        "IGNORED   PROC001 on a: pid 10"
    ]


def zombies(host_name: str, pids: range, program: str = "python") -> list[Finding]:
    return [
        Finding(
            "PROC004",
            Severity.INFO,
            (host_name,),
            f"pid {pid}",
            f"pid {pid} (ana, {pid} s old): {program}; a zombie: it has ended",
            f"nothing to do; it goes when its parent, pid {pid - 1}, collects it or ends",
            alike=f"zombie ana {program}",
        )
        for pid in pids
    ]


def test_what_a_check_calls_alike_is_one_finding_with_a_count() -> None:
    found = [*zombies("a", range(10, 68)), *zombies("a", range(100, 102), "bash")]
    first, second = merge_findings(found)
    assert (first.count, second.count) == (58, 2)
    assert first.finding == found[0]
    assert first.subjects[:2] == ("pid 10", "pid 11")
    assert len(first.subjects) == 58


def test_three_hundred_hosts_with_many_zombies_are_one_line() -> None:
    found = [each for number in range(1, 301) for each in zombies(f"n{number:03}", range(10, 68))]
    (item,) = group_findings(found)
    assert item.count == 300 * 58
    assert item.hosts == tuple(f"n{number:03}" for number in range(1, 301))
    assert item.message.endswith(f"(and {300 * 58 - 1} more like it)")


def test_subjects_beyond_a_few_are_counted() -> None:
    result = replace(result_of({"titan": {}}), findings=tuple(zombies("titan", range(10, 68))))
    said = text(result)
    assert "INFO      PROC004 on titan pid 10, pid 11," in said
    assert ", pid 17 and 50 more: pid 10 (ana, 10 s old): python" in said
    assert "(and 57 more like it)" in said
    assert said.endswith("1 host: ok (1 info)")
    (finding,) = encode_preflight(result)["findings"]
    assert (finding["subject"], finding["count"], len(finding["subjects"])) == ("pid 10", 58, 58)


def test_zombies_of_one_program_are_alike_whatever_their_pids_and_ages() -> None:
    scene = Scene(random.Random(1))
    parent = scene.add()
    for age_s in (60.0, 7200.0, 9000.0):
        scene.add(ppid=parent, state="Z", threads=1, argv=(), age_s=age_s)
    found = [each for each in check_host(scene.facts(), Job(), Expect()) if each.code == "PROC004"]
    assert len({each.message for each in found}) == 3
    assert [each.count for each in merge_findings(found)] == [3]


def test_equal_words_of_several_gpus_are_one_finding_of_the_document() -> None:
    overlay: dict[str, object] = {f"gpus.{index}.recovery_action": "node_reboot" for index in (0, 1)}
    findings = encode_preflight(result_of({"titan": overlay}))["hosts"]["titan"]["findings"]
    merged = [(each["subjects"], each["count"]) for each in findings if each["code"] == "HEAL001"]
    assert merged == [(["gpu0", "gpu1"], 2)]


def test_the_fix_of_several_gpus_names_them() -> None:
    overlay: dict[str, object] = {f"gpus.{index}.recovery_action": "gpu_reset" for index in (0, 1)}
    assert "sudo nvidia-smi --gpu-reset -i 0,1\n" in text(result_of({"titan": overlay}))


def test_the_order_of_findings_does_not_change_what_is_folded() -> None:
    findings = list(result_of({f"l40s-{i:02}": RESET for i in range(1, 5)}).findings)
    whole = {(item.codes, frozenset(item.hosts)) for item in group_findings(findings)}
    random.Random(7).shuffle(findings)
    assert {(item.codes, frozenset(item.hosts)) for item in group_findings(findings)} == whole


def test_messages_that_name_their_host_are_folded_with_a_range_in_the_fix() -> None:
    findings = [
        Finding(
            "PROC003", Severity.WARNING, (name,), "", f"{name} holds it", f"gpulaunch clean-zombies {name}"
        )
        for name in ("a-1", "a-2")
    ]
    (item,) = group_findings(findings)
    assert item.message == "a-[1-2] holds it"
    assert item.fix == "gpulaunch clean-zombies 'a-[1-2]'"


def test_names_that_do_not_resolve_are_listed_as_hosts_and_not_as_one_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    errors: dict[str, HostError] = {}
    for name in ("a.invalid", "b.invalid"):
        with pytest.raises(NameNotResolved) as caught:
            dial(Endpoint(name, "ssh", name))
        errors[name] = caught.value
    said = text(result_of({}, errors))
    assert "HOST002 on a.invalid,b.invalid: its name does not resolve: Name or service not known" in said


def test_a_short_host_name_is_not_replaced_inside_words() -> None:
    (item,) = group_findings(
        [Finding("X", Severity.INFO, (name,), "", "a bad cable", "ask") for name in ("a", "b")][:1]
    )
    assert item.message == "a bad cable"


def test_checks_hidden_by_one_unread_fact_are_one_line() -> None:
    said = text(result_of({"titan": {"gpus": {"missing": "the driver is away", "code": "error"}}}))
    unread = [line for line in said.splitlines() if "not checked: gpus: the driver is away" in line]
    assert len(unread) == 1
    assert "GPU001" in unread[0]
    assert "HEAL013" in unread[0]


def test_a_host_that_does_not_answer_is_a_finding_with_its_own_code() -> None:
    silent: dict[str, HostError] = {"l40s-01": ConnectionTimedOut("l40s-01", "no answer", "ping l40s-01")}
    others = text(result_of({"titan": {}, "l40s-02": {"python.packages": {}}}, silent))
    assert "  fix: without l40s-[01-02]: --hosts titan\n" in others, "l40s-02 has a finding of its own"
    assert "without" not in text(result_of({"titan": {"python.packages": {}}}, silent))
    result = result_of({"titan": {}}, silent)
    assert result.exit_code == 1
    assert "CRITICAL  HOST004 on l40s-01: no answer" in text(result)
    assert (
        "no launch on these hosts: l40s-01 cannot be used\n  fix: without l40s-01: --hosts titan\n"
        in text(result)
    )


def test_text_from_hosts_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jtitan\nOK everything"
    said = text(result_of({"titan": {"gpus.0.recovery_action": evil, "gpus.0.name": evil}}))
    assert "\x1b" not in said
    assert "\x07" not in said
    assert not any(line.startswith("OK everything") for line in said.splitlines())


def test_ignored_findings_are_shown_and_do_not_count() -> None:
    result = result_of({"titan": RESET}, options=PreflightOptions(ignore=frozenset({"HEAL001"})))
    assert result.exit_code == 0
    assert "IGNORED   HEAL001 on titan gpu0" in text(result)
    assert text(result).endswith("1 host: ok (1 ignored)")


def test_colour_is_only_in_the_verdict() -> None:
    lines = [paint_line(line, colour=True) for line in render_report(result_of({"titan": RESET}))]
    assert lines[0].startswith("\x1b[1;31mCRITICAL \x1b[0m HEAL001 on titan")


def test_the_document_says_everything_and_is_plain_json() -> None:
    document = json.loads(json.dumps(encode_preflight(result_of({"titan": RESET}), facts=True)))
    assert document["schema"] == "gpulaunch.preflight/1"
    assert document["exit_code"] == 1
    titan = document["hosts"]["titan"]
    assert titan["verdict"] == "critical"
    assert titan["findings"][0]["code"] == "HEAL001"
    assert titan["findings"][0]["blocks_launch"] is True
    assert titan["summary"]["gpus"][0]["capability"] == [8, 9]
    assert titan["facts"]["driver"]["version"] == "595.80"
    assert document["would_use"]["precision"] == "bf16"
    assert document["would_use"]["main_port"] == 29500


def test_unknown_weighs_more_than_a_warning() -> None:
    findings = tuple(
        Finding("X", severity, ("a",), "", "", "") for severity in (Severity.WARNING, Severity.UNKNOWN)
    )
    assert find_worst_severity(findings) == "unknown"
    assert find_worst_severity(()) == "pass"


def test_names_that_are_no_node_set_stay_as_they_are() -> None:
    assert (
        format_host_range(["user@10.0.0.7:2222", "l40s-01", "l40s-02"]) == "l40s-[01-02],user@10.0.0.7:2222"
    )
    assert format_host_range(["titan"]) == "titan"


@pytest.mark.parametrize(
    ("errors", "message", "shown"),
    [
        ({}, "its GPUs are not known", "nothing was started: these hosts allow no launch"),
        (
            {"l40s-01": ConnectionTimedOut("l40s-01", "no answer")},
            "l40s-01: no answer",
            "nothing was started: l40s-01 cannot be used (HOST004)",
        ),
        ({}, "the directory cannot be written", ""),
    ],
)
def test_an_error_is_short_only_where_the_report_above_holds_it(
    errors: dict[str, HostError], message: str, shown: str
) -> None:
    preview = LaunchPreview(problem="its GPUs are not known", fix="name them with --gpus")
    result = replace(result_of({"titan": {}}, errors), would_use=preview)
    error = LaunchRefused(message)
    short = shorten_error(error, result)
    assert (short.message, short.summary, error.summary) == (message, shown, "")
    assert not shown or message.removeprefix("l40s-01: ") in text(result)
    assert "no launch on these hosts: its GPUs are not known\n  fix: name them with --gpus\n" in text(result)
