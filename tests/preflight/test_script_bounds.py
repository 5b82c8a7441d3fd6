"""What reading a script may take: a hostile script is no way to an endless check or to all the memory.

The bounds are on counted work and on the sizes of values, so that no test here looks at a clock.
"""

import gc

import pytest

from preflight.script import bounds
from preflight.script.analyze import analyze_script
from preflight.script.lint import LintResult, lint
from preflight.script.target import RankTarget

GROWTH = {
    "integers": ("n = 3", "n = n * n", "an integer of more than 4096 bits"),
    "lists": ("x = [1, 2]", "x = x + x", "more than 20000 items"),
    "lists in place": ("x = [1, 2]", "x += x", "more than 20000 items"),
    "one list in itself": ("x = [1]", "x = [x, x]", "more than 20000 items"),
    "appended": ("x = [1]", "x.append(x)", "more than 20000 items"),
    "dicts": ("x = {'a': 1}", "x = {'a': x, 'b': x}", "more than 20000 items"),
    "entries": ("x = {'a': 1}", "x[len] = x; x['b'] = x; x['c'] = x", "more than 20000 items"),
    "alternatives": ("import os; x = [1]", "x = [x, x] if input() else (x, 1)", "more than 20000 items"),
    "strings": ("x = 'xxxxxxxx'", "x = x + x", "a string of more than 65536 characters"),
    "f-strings": ("x = 'xxxxxxxx'", "x = f'{x}{x}'", "a string of more than 65536 characters"),
    "bytes": ("x = b'xxxxxxxx'", "x = x + x", "a string of more than 65536 characters"),
    "depth": ("x = 1", "x = [x]", "more than 60 lists in one another"),
}


@pytest.mark.parametrize("kind", GROWTH)
def test_a_value_that_grows_without_end_is_not_held_and_that_is_no_pass(kind: str) -> None:
    first, again, reason = GROWTH[kind]
    text = "\n".join([first, *[again] * 70])
    result = lint(text, "train.py")
    assert any(reason in problem for problem in result.problems), result.problems
    assert analyze_script(text, "train.py").problem == ""


@pytest.mark.parametrize(
    "line",
    [
        "x = '{:>1000000000000}'.format('x')",
        "x = '%1000000000000s' % 'x'",
        "x = b'%1000000000000s' % b'x'",
        "x = ('x' * 1).replace('x', 'y')",
        "x = int(float('inf'))",
        f"x = float({10**400})",
        f"x = f'{{0x{'f' * 100_000}}}'",
        "x = '{0.__class__}'.format('x')",
    ],
)
def test_what_python_would_compute_without_end_is_not_computed(line: str) -> None:
    result = lint(f"import torch\n{line}\nmodel = torch.nn.Linear(1, 1).to('cuda:0')\n", "train.py")
    assert [item.code for item in result.findings] == ["D201"], "what stands after it is judged"


def test_a_text_is_replaced_only_where_the_result_can_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preflight.script.interpreter.builtin_methods.MAX_TEXT", 20)
    moved = "import torch\nd = {}\nmodel = torch.nn.Linear(1, 1).to(d)\n"
    held = lint(moved.format("'abda:0'.replace('ab', 'cu')"), "t.py").findings
    assert {item.code for item in held} == {"D201"}
    assert lint(moved.format("'xxxx'.replace('x', 'cuda:0')"), "t.py").findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "class A: pass\na = A()\n" + "".join(f"a.v{number} = 1\n" for number in range(3_000)),
        "a = {}\n" + "".join(f"a[{number}] = 1\n" for number in range(2_000)),
        "import os\nx = os\n" + "x = x.y\n" * 6_000,
        "import os\n"
        + "".join(f"v{number} = 1\n" for number in range(3_000))
        + "if input(): w = 1\n" * 1_000,
        "".join(" " * depth + f"for i{depth} in (1, 2, 3, 4, 5, 6):\n" for depth in range(60))
        + " " * 60
        + "x",
    ],
    ids=["attributes", "entries", "names", "branches", "loops"],
)
def test_copies_count_as_work_and_work_has_an_end(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_STEPS", 40_000)  # the statements alone are fewer
    result = lint(text, "train.py")
    assert result.problems, "nothing was judged to its end"


def test_work_is_counted_and_ends() -> None:
    work = bounds.WorkBudget()
    work.copy(15)
    assert work.steps == 0
    with pytest.raises(bounds.TooLong):
        work.copy(16 * (bounds.MAX_STEPS + 1))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = [" + "1," * 250_000 + "]", "too large"),
        ("x = " + "-" * 100_000 + "1", "nested too deeply"),
        ("x = 1" + "+1" * 100_000, "nested too deeply"),
        ("x = a" + ".b" * 100_000, "nested too deeply"),
    ],
)
def test_a_script_that_cannot_be_parsed_within_bounds_is_not_judged(text: str, reason: str) -> None:
    result = lint(text, "train.py")
    assert reason in result.problems[0]
    assert reason in analyze_script(text, "train.py").problem


def test_of_too_large_modules_those_that_train_are_read_and_the_rest_is_counted() -> None:
    clip = "scaler.scale(loss).backward()\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\n"
    head = "from torch.nn.utils import clip_grad_norm_\ndef train(model, loss, optimizer, scaler):\n"
    files = {f"plain{number}.py": "x = 1\n" for number in range(70)}
    files |= {f"many{number}.py": "x = [" + "1," * 25_000 + "]\n" for number in range(7)}
    files["loop.py"] = head + "".join(f"    {line}\n" for line in clip.splitlines())
    text = "".join(f"import {name[:-3]}\n" for name in files)
    text += (
        "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "loop.train(model, model(1).sum(), optimizer, torch.amp.GradScaler('cuda'))\n"
    )
    result = lint(text, "train.py", [RankTarget(capability=(8, 0), processes=2)], find=files.get)
    assert [(item.code, item.place.path) for item in result.findings if item.code == "P116"] == [
        ("P116", "loop.py")
    ]
    assert "loop.py" in result.files
    assert {f"plain{number}.py" for number in range(70)} <= set(result.files)
    assert result.problems == ("more than 300000 words and signs in all: 2 modules were not read",)


def test_a_module_that_is_too_large_is_not_judged_and_the_script_is() -> None:
    files = {"big.py": "x = [" + "1," * 250_000 + "]"}
    result = lint("import big\nimport torch\ntorch.nn.Linear(1, 1).to('cuda:0')\n", "t.py", find=files.get)
    assert [item.code for item in result.findings] == ["D201"]
    assert [problem.partition(":")[0] for problem in result.problems] == ["big.py"]


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    "config", [ALIASES, "x: " + "y" * 300_000, "[" * 50_000], ids=["aliases", "length", "depth"]
)
def test_a_configuration_beside_the_script_is_read_within_bounds(config: str) -> None:
    script = "import yaml\nc = yaml.safe_load(open('c.yaml'))\n"
    result = lint(script, "t.py", find={"c.yaml": config}.get)
    assert [problem.partition(":")[0] for problem in result.problems] == ["c.yaml"]


@pytest.mark.parametrize(("items", "judged"), [(19_999, True), (20_000, False)])
def test_a_configuration_of_20000_items_is_read(items: int, *, judged: bool) -> None:
    script = "import yaml\nc = yaml.safe_load(open('c.yaml'))\n"
    assert (not lint(script, "t.py", find={"c.yaml": f"[{'x,' * items}]"}.get).problems) is judged


def test_many_switches_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one that is tried is one more reading of the script; one that was not is not used."""
    readings: list[RankTarget] = []

    def judge(_: str, __: str, targets: list[RankTarget], **___: object) -> LintResult:
        readings.extend(targets)
        return LintResult((), (), ())

    monkeypatch.setattr("preflight.script.analyze.lint_for", judge)
    head = "from accelerate import Accelerator\nimport argparse\n"
    one = "p = argparse.ArgumentParser()\np.add_argument('--{0}', dest='fp16', action='store_true')\n"
    one += "a = p.parse_args()\nAccelerator(mixed_precision=a.fp16)\n"
    sites = analyze_script(
        head + "".join(one.format(f"fp16-{number}") for number in range(30)), "t.py"
    ).precision
    assert (len(sites), len(readings)) == (30, 8)


@pytest.mark.parametrize(
    ("folder", "marker", "own"),
    [("transformers", False, False), ("transformers", True, True), ("datasets", False, True)],
)
def test_an_installed_package_hides_a_folder_of_its_name_without_init(
    folder: str, *, marker: bool, own: bool
) -> None:
    files = {f"{folder}/place.py": "import torch\nHERE = torch.device('cuda:0')\n"}
    files |= {f"{folder}/__init__.py": ""} if marker else {}
    script = f"import torch\nfrom {folder} import place\ntorch.nn.Linear(1, 1).to(place.HERE)\n"
    codes = [item.code for item in lint(script, "t.py", find=files.get).findings]
    assert ("D201" in codes) is own


def test_reading_holds_no_circles_and_leaves_the_garbage_collector_as_it_was() -> None:
    module = "class Net:\n    def step(self):\n        self.me = [self]\n" * 50
    script = "import net\nmodel = net.Net()\nmodel.step()\nfor _ in range(3):\n    model.step()\n"

    def find(path: str) -> str | None:
        assert not gc.isenabled()
        return module if path == "net.py" else None

    lint(script, "train.py", find=find)  # what is made at first use
    gc.collect()
    with bounds.pause_collector():  # the first one after lint() would find them
        result = lint(script, "train.py", find=find)
        assert result.files == ("train.py", "net.py")
        assert gc.collect() < 100  # a tree alone has thousands of objects
    assert gc.isenabled()

    def fail(path: str) -> str | None:
        raise OSError(path)

    with pytest.raises(OSError, match="net"):
        lint(script, "train.py", find=fail)
    assert gc.isenabled()


@pytest.mark.parametrize("text", ["[" + "1, " * 30_000 + "1]", '{"a": "' + "x" * 300_000 + '"}'])
def test_json_of_the_size_of_data_is_no_part_of_what_is_judged(text: str) -> None:
    script = "import json\nrows = json.load(open('rows.json'))\nfor row in rows:\n    print(row)\n"
    assert not lint(script, "t.py", find={"rows.json": text}.get).problems
