"""The page of a preflight: what it says, and that text of hosts stays text. tests/browser looks at it."""

import hashlib
import json
import re
from base64 import b64encode
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.cli import run_command_line
from launcher.commands.preflight import command
from launcher.config.config_search import templates_dir
from launcher.config.inventory import HostEntry
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.render_json import encode_preflight
from launcher.host_checks.result import PreflightResult
from launcher.remote.agent import GatherResult
from launcher.report.preflight_page.deep_section import render_deep
from launcher.report.preflight_page.differences import find_differences
from launcher.report.preflight_page.findings import build_code_sections, list_anchors, split_fix
from launcher.report.preflight_page.gpu_map import build_gpu_rows
from launcher.report.preflight_page.heat_map import FAMILY_NAMES, build_heat_rows, list_families
from launcher.report.preflight_page.page import render_preflight_page, render_verdict
from launcher.report.preflight_page.reach_matrix import reach_columns, reach_rows
from preflight.checks.registry import parse_family
from preflight.checks.runner import load_checks
from preflight.facts.host import HostFacts, Reach
from preflight.facts.missing import Missing
from preflight.job import Job
from tests.launcher.preflight_fleets import deep_document, fleet
from tests.launcher.report_runs import EVIL, Tags
from tests.launcher.test_report_scale import address, with_findings
from tests.preflight.golden_cases import host
from tests.smi_reading import parse_smi

RECORDING = "tests/preflight/recordings/8xh100-broken.json"
CSS = (templates_dir() / "preflight_page" / "page.css").read_text()


def page(result: PreflightResult) -> str:
    return render_preflight_page(result, made_at=1763800000.0, version="1.2.3")


def judged(*facts: HostFacts, reach: tuple[Reach, ...] = (), apart: bool = False) -> PreflightResult:
    found = {each.host: each for each in facts}
    how = PreflightOptions(as_one_launch=not apart)
    entries = [HostEntry(name) for name in found]
    return evaluate_facts(entries, GatherResult(found, {}), Job(), reach=reach, options=how)


def between(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


def test_every_family_of_checks_has_words_on_the_page() -> None:
    assert {parse_family(code) for code in load_checks()} <= FAMILY_NAMES.keys()


def test_text_of_hosts_is_only_text_and_nothing_is_loaded() -> None:
    result = fleet(evil=f"{EVIL}</script></title><!--")
    whole = page(result)
    tags = Tags()
    tags.feed(whole)
    tags.close()
    assert tags.open == []
    assert [tag for tag, _ in tags.seen].count("script") == 2
    assert not {tag for tag, _ in tags.seen} & {"img", "iframe", "link", "object", "form", "svg", "base"}
    for _, attributes in tags.seen:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style")]
        assert (attributes.get("href") or "#").startswith("#")
    assert "\x1b" not in whole
    assert "\u202e" not in whole
    assert not re.search(r"url\(|@import|https?:", between(whole, "<style>", "</style>"))
    document = between(whole, 'id="gpulaunch-preflight">', "</script>")
    assert json.loads(document) == encode_preflight(result)


def test_the_policy_of_the_page_allows_its_own_style_and_script_alone() -> None:
    whole = page(fleet(3))
    policy = between(whole, 'Policy" content="', '"')
    sources = {
        "style": between(whole, "<style>", "</style>"),
        "script": between(whole, "<script>", "</script>"),
    }
    expected = ["default-src 'none'"]
    for name, content in sources.items():
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        expected.append(f"{name}-src 'sha256-{digest}'")
    assert policy.split("; ") == [*expected, "base-uri 'none'", "form-action 'none'"]


def _luminance(colour: str) -> float:
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the ratio of WCAG 2.2, 1.4.3: from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_colour_can_be_read_on_its_ground(scheme: int) -> None:
    names = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", CSS.split(":root {")[scheme + 1].split("}")[0]))
    cells = [name.removesuffix("-ink") for name in names if name.endswith("-ink")]
    assert sorted(cells) == ["c", "i", "m0", "m1", "m2", "m3", "m4", "n", "p", "u", "w"]
    pairs = [(f"{cell}-ink", f"{cell}-{ground}") for cell, ground in product(cells, ("paper", "hatch"))]
    pairs += product(("ink", "soft", "bad", "good"), ("paper", "panel"))
    low = {pair: contrast(names[pair[0]], names[pair[1]]) for pair in pairs if pair[1] in names}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_hosts_that_say_the_same_are_one_row_and_the_worst_come_first() -> None:
    result = fleet()
    columns = list_families(result)
    rows = {row.hosts: dict(zip(columns, row.cells, strict=True)) for row in build_heat_rows(result, columns)}
    hosts = list(rows)
    assert len(hosts[-1]) == 34
    assert hosts[0] == ("h100-07",)
    assert ("h100-12", "h100-13") in hosts
    assert rows["h100-07",]["GPU"].codes == ("GPU003",)
    assert rows["h100-12", "h100-13"]["PROC"].state == "C"
    assert rows["h100-22",]["PROC"].state == "U"
    assert rows["h100-21",]["NET"].state == "C"
    lost = rows["h100-30",]
    assert {lost[name].state for name in columns} == {"C", "U"}  # nothing of it is called fine
    assert lost["HOST"].state == "C"


def test_what_was_not_judged_is_no_column_and_what_was_not_asked_has_not_passed() -> None:
    alone = judged(host(), host(name="l40s-01"), apart=True)
    assert "SAME" not in list_families(alone)
    assert "SAME" in list_families(judged(host(), host(name="l40s-01")))
    text = Path("tests/preflight/smi/titan-rtx.q.xml").read_text()
    facts = parse_smi(text, "titan")
    from_file = PreflightOptions(as_one_launch=False, from_file=True)
    job = Job(gpus="all")
    entries = [HostEntry("titan")]
    result = evaluate_facts(entries, GatherResult({"titan": facts}, {}), job, options=from_file)
    columns = list_families(result)
    (row,) = build_heat_rows(result, columns)
    states = {name: cell.state for name, cell in zip(columns, row.cells, strict=True)}
    assert {states[name] for name in ("ENV", "PORT", "DISK", "LIM")} == {"N"}
    assert states["MODE"] == "P"


def test_a_script_that_was_not_read_has_not_passed() -> None:
    facts = host({"script": {"missing": "no such file", "code": "not-found"}})
    result = evaluate_facts(
        [HostEntry("titan")], GatherResult({"titan": facts}, {}), Job(script="train.py", workdir="~")
    )
    columns = list_families(result)
    (row,) = build_heat_rows(result, columns)
    assert dict(zip(columns, row.cells, strict=True))["SCR"].state == "N"


def test_every_link_leads_to_findings_in_the_page() -> None:
    result = fleet()
    whole = page(result)
    assert set(re.findall(r'href="#([^"]+)"', whole)) <= set(re.findall(r' id="([^"]+)"', whole))
    codes = {finding.code for finding in result.findings}
    assert list_anchors(build_code_sections(result)) == codes


def test_gpus_are_squares_with_the_share_of_memory_in_use() -> None:
    rows = build_gpu_rows(fleet())
    assert [hosts for _, hosts in rows][:2] == [("h100-12", "h100-13"), ("h100-07",)]
    assert [square.used for square in rows[0][0]] == [63, 64, 65, 66, 67, 68, 69, 70]
    assert [square.bad for square in rows[1][0]] == [False, False, True, False, True, False, False, False]
    assert rows[1][0][2].used is None


def test_gpus_that_ranks_on_the_cpu_left_unread_are_not_counted() -> None:
    def shown(job: Job) -> str:
        return page(evaluate_facts([HostEntry("titan")], GatherResult({"titan": host()}, {}), job))

    assert "GPUs seen" in shown(Job(gpus="all"))
    assert "GPUs seen" not in shown(Job(gpus="none"))


def test_what_differs_is_listed_with_the_majority_first() -> None:
    found = find_differences(fleet().facts)
    assert set(found) == {"driver", "kernel", "GPUs"}
    assert [hosts for _, hosts in found["driver"]][1:] == [("h100-21",)]
    assert len(found["driver"][0][1]) == 38
    unread = judged(host(), host({"driver": {"missing": "no", "code": "error"}}, "l40s-01"))
    assert next(iter(find_differences(unread.facts).values()))[1] == ("not read", ("l40s-01",))


def test_what_no_host_has_said_is_not_called_equal() -> None:
    silent = {"script": {"missing": "no such file", "code": "not-found"}}
    whole = page(judged(host(silent), host(silent, "l40s-01")))
    differ = between(whole, "<h2>What differs between the hosts</h2>", "<h2>")
    assert "<p>Nothing.</p>" in differ
    assert "Not read on any: machine, script (SHA-256)." in differ
    assert "script" not in between(differ, "Equal on all", "</p>")


def test_reach_is_a_matrix_of_the_ways_that_were_tried() -> None:
    reach = (
        Reach("b", "a", "192.0.2.1", 29500, ok=True, error="", ms=0.25),
        Reach("b", "a", "192.0.2.1", 43210, ok=True, error="", ms=12.0),
        Reach("c", "a", "192.0.2.1", 29500, ok=True, error="", ms=0.5),
        Reach("d", "a", "192.0.2.1", 29500, ok=False, error="refused<b>", ms=1.0),
        Reach("a", "b", "192.0.2.2", 29500, ok=True, error="", ms=0.5),
    )
    columns = reach_columns(reach)
    assert columns == ((("a", 29500),), (("a", 43210),), (("b", 29500),))
    rows = reach_rows(reach, columns)
    assert [row.hosts for row in rows] == [("d",), ("b",), ("c",), ("a",)]
    assert rows[1].connections == ((True, 0.25, 0.25), (True, 12.0, 12.0), None)
    assert rows[2].connections == ((True, 0.5, 0.5), None, None)
    assert rows[3].connections == (None, None, (True, 0.5, 0.5))
    whole = page(judged(host(name="a"), host(name="d"), reach=reach))
    assert "d to a, 192.0.2.1 port 29500: refused&lt;b&gt;" in whole
    assert '<td class="p">0.2</td><td class="p">12</td><td></td>' in whole
    assert "<h2>Which host reaches which</h2>" in whole
    to_main = page(judged(host(name="a"), host(name="d"), reach=reach[:4]))
    assert "<h2>Who reaches a</h2>" in to_main
    assert "Of many hosts only these ways are tried; gpulaunch preflight --deep measures" in to_main
    assert '<th scope="col">a<br>port 43210</th>' in to_main


def test_hosts_that_are_reached_alike_share_a_column_and_those_that_reach_alike_a_row() -> None:
    names = [f"n{number}" for number in range(1, 9)]
    reach = [Reach(name, "n1", "x", 29500, ok=True, error="", ms=0.2) for name in names[1:]]
    for one in names:
        for other in names[1:]:
            if one != other:  # n5 is closed to the others; n1 comes through
                ok = other != "n5" or one == "n1"
                reach.append(Reach(one, other, "x", 4000 + int(other[1:]), ok=ok, error="", ms=0.5))
    columns = reach_columns(reach)
    alike = tuple((name, 4000 + int(name[1:])) for name in names[1:] if name != "n5")
    assert columns == ((("n1", 29500),), alike, (("n5", 4005),))
    rows = reach_rows(reach, columns)
    assert [row.hosts for row in rows] == [("n2", "n3", "n4", "n6", "n7", "n8"), ("n5",), ("n1",)]
    assert [way and way[0] for way in rows[0].connections] == [True, True, False]
    assert [way and way[0] for way in rows[2].connections] == [None, True, True]


def test_a_fix_that_neighbours_share_is_shown_once_below_them() -> None:
    text = between(page(fleet()), 'id="PROC001"', "</section>")
    assert text.count("Fix for these 8: ") == text.count("clean-zombies &#x27;h100-[12-13]&#x27;<") == 1
    assert text.index("gpu7") < text.index("Fix for these 8: ")


@pytest.mark.parametrize(
    ("fix", "commands"),
    [
        ("gpulaunch clean-zombies titan; to share it: sudo nvidia-smi -i 0 -c DEFAULT", 2),
        ('/opt/v/bin/python -c "import torch; print(torch.version.cuda)"', 1),
        ("ask the administrator", 0),
        ("sudo ss -tanp 'sport = :29500' names its owner; choose another with --port", 1),
        ("end it (gpulaunch clean-zombies titan --pid 42), or use other GPUs with --gpus", 1),
        ("'unclosed sudo reboot; ; (", 1),
        ("", 0),
    ],
)
def test_commands_in_a_fix_are_marked_and_no_word_is_lost(fix: str, commands: int) -> None:
    pieces = split_fix(fix)
    assert "".join(words for words, _ in pieces) == fix
    marked = [words for words, is_command in pieces if is_command]
    assert len(marked) == commands
    assert not [words for words in marked if words.endswith((";", ",", " ")) or " names" in words]


def test_the_verdict_is_one_sentence() -> None:
    assert render_verdict(judged(host())) == (
        "Ok: nothing stops a launch on 1 host, and nothing was left unchecked."
    )
    assert render_verdict(fleet()) == ("Not ok: 6 of 40 hosts stop a launch: h100-[07,12-13,21-22,30].")
    both = judged(host(name="a"), host(name="d"), reach=(Reach("d", "a", "x", 1, ok=False, error="x", ms=0),))
    assert render_verdict(both).startswith("Not ok: 1 of 2 hosts stops a launch: d")
    unread = judged(host({"system": {"missing": "not permitted", "code": "error"}}))
    assert render_verdict(unread) == (
        "Not ok: nothing stops a launch, but not all could be checked on titan."
    )


def test_a_large_fleet_is_a_page_of_sane_size() -> None:
    result = with_findings(300, address)
    whole = page(result)
    beside_json = len(whole) - len(between(whole, 'id="gpulaunch-preflight">', "</script>"))
    assert beside_json < 200_000
    assert (
        len(build_heat_rows(result, list_families(result))) == 2
    )  # the main host, and all that do not reach it


def test_no_host_at_all_that_answered_is_a_page_too() -> None:
    result = fleet(30)
    lost = evaluate_facts([HostEntry("h100-30")], GatherResult({}, result.errors), Job())
    whole = page(lost)
    assert "1 of 1 host stops a launch" in whole
    assert not isinstance(result.facts["h100-01"].gpus, Missing)
    assert "<h2>GPUs</h2>" not in whole


def test_the_command_writes_the_page_beside_its_text(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    done = CliRunner().invoke(command, ["--from", RECORDING, "--html", str(target)])
    assert "GPU003" in done.stdout
    assert str(target) in done.stderr
    alone = CliRunner().invoke(command, ["--from", RECORDING, "--html", "-"])
    undated = [re.sub(r"<dt>made</dt>.*?</dd>", "", text) for text in (target.read_text(), alone.stdout)]
    assert undated[0] == undated[1]
    beside = CliRunner().invoke(command, ["--from", RECORDING, "--html", str(target), "--json"])
    assert json.loads(beside.stdout)["schema"] == "gpulaunch.preflight/1"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_page_that_cannot_be_written_is_reported_before_a_host_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent" / "x.html"
    assert run_command_line(["preflight", "nowhere.invalid", "--html", str(absent)]) == 2
    assert f"{absent}: the directory {absent.parent} does not exist" in capsys.readouterr().err
    assert run_command_line(["preflight", "nowhere.invalid", "--html", "-", "--json"]) == 2
    capsys.readouterr()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    assert run_command_line(["preflight", "nowhere.invalid", "--html", str(tmp_path / "x.html")]) != 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == f"error: no space left: {tmp_path / 'x.html'}"
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_deep_checks_are_strips_and_matrices() -> None:
    result = fleet(3)
    document = deep_document()
    whole = render_preflight_page(result, made_at=0.0, version="1", deep=document)
    strips = between(whole, '<table class="strips">', "</table>")
    assert strips.count("<svg") == 16
    assert between(strips, '<th scope="row">', "</th>") == "h100-01 gpu5"  # the slowest
    assert '<i class="key w">W</i>' in strips
    assert "87% of peers" in strips
    pairs = between(whole, '<table class="reach pairs">', "</table>")
    assert (pairs.count('class="w"'), pairs.count('class="p"')) == (4, 2)
    assert "not measured: l40s-09 gpu3: held by another run" in whole
    assert json.loads(between(whole, 'id="gpulaunch-preflight">', "</script>"))["deep"] == document


def test_former_measurements_are_a_line_beside_the_value() -> None:
    document = deep_document()
    row = document["values"][0]
    day = 86400.0
    row["former"] = [[1.0e9, row["value"] / 2], [1.0e9 + 30 * day, row["value"]], ["x", None], 3]
    section = "".join(render_deep(document))
    assert section.count('<svg class="trend"') == 1
    line = between(section, '<svg class="trend"', "</svg>")
    assert between(line, "<title>", "</title>").startswith("2001-09-0")
    assert "now: " in line
    assert between(line, 'points="', '"') == "2.0,14.0 48.0,2.0 94.0,2.0"


def test_text_in_measurements_is_only_text_and_many_are_cut() -> None:
    evil = f"{EVIL}</script>"
    whole = render_preflight_page(fleet(2), made_at=0.0, version="1", deep=deep_document(evil=evil))
    tags = Tags()
    tags.feed(whole)
    assert tags.open == []
    assert not {tag for tag, _ in tags.seen} & {"img", "iframe", "form"}
    large = "".join(render_deep(deep_document(1040)))
    assert large.count("<svg") == 64
    assert "and 976 faster ones" in large
    assert large.count('scope="row"') == 64 + 64  # strips, and the slowest of the pairs of 131 nodes
    assert len(large) < 400_000
    many = deep_document()
    many["matrices"] = [{**many["matrices"][0], "slow_members": []}] * 30 + many["matrices"]
    few = "".join(render_deep(many))
    assert "and 7 more matrices" in few
    assert few.index('class="w"') < few.index(
        'class="reach pairs"', few.index('class="w"')
    )  # the slow one first


def test_hosts_that_were_not_measured_have_not_passed() -> None:
    result = fleet(3)
    columns = (*list_families(result), "DEEP")
    rows = build_heat_rows(result, columns, measured=frozenset({"h100-01", "h100-02"}))
    assert {row.hosts: row.cells[-1].state for row in rows} == {
        ("h100-03",): "N",
        ("h100-01", "h100-02"): "P",
    }
