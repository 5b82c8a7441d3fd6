"""Launches among the commands and variables of a project's files: chosen by number, carried over or named."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import explain_missing_value, require_values
from launcher.errors import CommandRefused

_STEPS = """\
jobs:
  train:
    steps:
    - run: echo "A=1" >> $GITHUB_ENV
    - run: python first.py
      env: {C: 3}
    - run: |
        cd d
        torchrun a.py
    - run: python upload.py
"""


def test_a_number_chooses_one_of_the_launches_of_a_manifest() -> None:
    with pytest.raises(
        CommandRefused, match=r"3 commands, 1: python first\.py; 2: torchrun a\.py; 3: python up"
    ):
        parse_line(_STEPS)
    parsed = parse_line(_STEPS, number=2)
    assert (parsed.program, parsed.directory, parsed.env) == ("a.py", "d", {})
    assert parsed.dropped[0].startswith('echo "A=1" >> $GITHUB_ENV: another command of the manifest')
    assert parse_line(_STEPS, number=3).directory == ""


@pytest.mark.parametrize(
    ("text", "directory", "env", "named"),
    [
        ("n = 2\nt:\n\tcd d\n\texport A=1\n\ttorchrun a.py $(n)\n", "", {}, ["cd d", "export A=1"]),
        ("n = 2\nt:\n\tcd d && export A=1 && \\\n\ttorchrun a.py $(n)\n", "d", {"A": "1"}, []),
        (".ONESHELL:\nt:\n\tcd d\n\texport A=1\n\ttorchrun a.py\n", "d", {"A": "1"}, []),
        (
            "set dotenv-load\nset working-directory := 'd'\nt $A='1':\n  cd e\n  torchrun a.py\n",
            "d",
            {"A": "1"},
            ["set dotenv-load", "cd e"],
        ),
        ("set export\nA := '1'\nt:\n  torchrun a.py\n", "", {"A": "1"}, []),
        ("t: export A = 1\nt:\n\ttorchrun a.py $(A)\n", "", {"A": "1"}, []),
        ("export\nA = 1\ninclude x.mk\nt:\n\ttorchrun a.py\n", "", {"A": "1"}, ["include x.mk"]),
        ("export A B\nA = 1\nt:\n\ttorchrun a.py\nu:\n\techo\n", "", {"A": "1"}, ["export B"]),
    ],
)
def test_recipes_have_the_directory_and_the_variables_that_make_and_just_give_them(
    text: str, directory: str, env: dict[str, str], named: list[str]
) -> None:
    parsed = parse_line(text)
    assert (parsed.directory, parsed.env) == (directory, env)
    assert sorted(said.partition(":")[0] for said in parsed.dropped) == sorted(named)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("x/y:\n\ttorchrun a.py --out $@ --at $$PWD\n", ["--out", "x/y", "--at", "/w"]),
        ("x: c.yaml d | e\n\ttorchrun a.py $< $(^) $* -v\n", ["c.yaml", "c.yaml", "d", "-v"]),
        ("all: x\nx:\n\ttorchrun a.py ${@}\n", ["x"]),
        ("x:\n\ttorchrun a.py $@\ny: b.py\n\techo $<\n", ["x"]),
        ("A = --c $(B).yaml\nA += -v\nB = x\nx::\n\t+@torchrun a.py $(A)\n", ["--c", "x.yaml", "-v"]),
        (
            'override N = 1\nA = --n $(N) \\\n  --s "a b"\nx:\n\ttorchrun a.py $(A)\n',
            ["--n", "1", "--s", "a b"],
        ),
        (".PHONY: x\nx:\n    torchrun a.py --out $@\n\ny:\n    echo b\n", ["--out", "x"]),
        ("N := 3\nx:\n  torchrun a.py $(N)\n", ["3"]),
        ("x:\n\t@torchrun a.py \\\n\t--n 1 \\\n\t-v\n", ["--n", "1", "-v"]),
        ("N ?= 1\nx:\n\ttorchrun a.py \\\n\t--n $(N)\n\ny:\n\techo\n", ["--n", "1"]),
        ("n := '1'\nx:\n  @torchrun a.py \\\n  --n {{n}}\n", ["--n", "1"]),
        ("x: ; torchrun a.py -v\n", ["-v"]),
        ("x: ; torchrun a.py -v\ny: ; pytest\n", ["-v"]),
        (".RECIPEPREFIX = >\nN := 3\nx:\n> torchrun a.py $(N)\n", ["3"]),
        ("X = 1\nx:\n\ttorchrun a.py $(if $(X),--x $(X)) $(if $(Y),-y)\n", ["--x", "1"]),
        ("A := 7\nexport B = 8\nx:\n\tA=3; torchrun a.py $$A $(A) $$B\n", ["3", "7", "8"]),
        ("A := 7\nx:\n\tA=3 && torchrun a.py $(A)\n", ["7"]),
        ("A := 7\nx: A = 9\nx:\n\tA=3; torchrun a.py $(A) $$A\n", ["9", "3"]),
        ("A := 7\nifdef A\nB = y\nendif\nx:\n\tA=3; torchrun a.py $(A) $(B)\n", ["7", "y"]),
        ("A = 1\nx: export A = 9\nx:\n\ttorchrun a.py $$A\n", ["9"]),
        (
            "A = 5%\nx:\n\ttorchrun a.py 'n-$(A)' \"it's $(A)\" '{\"a\": $(A)}'\n",
            ["n-5%", "it's 5%", '{"a": 5%}'],
        ),
        ('A = a \\\n  b\nx:\n\ttorchrun a.py "$(A)"\n', ["a b"]),
        (".SHELLFLAGS = -ec\nA = a#b \\# c\nB = 2>&1 | tee x.log\nx:\n\ttorchrun a.py $(A) $(B)\n", ["a"]),
        ("A = a\\#b\nD := $(shell pwd)/d\nx:\n\ttorchrun a.py $(A) $(D)\n", ["a#b", "/w/d"]),
        ("A = ~/x\nx:\n\ttorchrun a.py $(A)\n", ["/h/x"]),
        ("set positional-arguments\nx:\n\ttorchrun a.py --n 1 $@\n", ["--n", "1"]),
    ],
)
def test_recipes_have_the_names_that_make_fills_in(text: str, args: list[str]) -> None:
    assert list(parse_line(text, {"PWD": "/w", "HOME": "/h"}).args) == args


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("x:\n\tA=3\n\ttorchrun a.py $$A\n", "$A"),
        ("A = $(shell ls)\nx:\n\ttorchrun a.py $(if $(A),-v)\n", "$(if"),
        ("N = $(shell ls | awk '{print $$1}')\nx:\n\ttorchrun a.py $(N)\n", "awk"),
        ("ifeq ($(shell uname),Linux)\nA = 1\nelse\nA = 2\nendif\nx:\n\ttorchrun a.py $(A)\n", "$(A)"),
        ("R := $(wordlist 2,9,$(MAKECMDGOALS))\n$(eval $(R):;@:)\nx:\n\ttorchrun a.py $(R)\n", "$(wordlist"),
        (
            "A = $(patsubst %.x,%.y,$(wildcard *.x))\n$(A): %.y: %.x\n\ttorchrun a.py $< $@\n",
            "line has <your-stem>, $(patsubst",
        ),
        ("run = --n $(1)\nx:\n\ttorchrun a.py $(foreach i,$(shell ls),$(call run,$(i)))\n", "$(foreach"),
        ("N = 2\n$(eval N := 3)\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
        ("f = --n $(1)\nx:\n\ttorchrun a.py $(call f,1)\n", "$(call f,1)"),
        ("x:\n\ttorchrun a.py $(filter a%,a b)\n", "$(filter a%,a b)"),
        ("x:\n\ttorchrun a.py $(filter-out a,a b)\n", "$(filter-out a,a b)"),
        ("A := b.py\nx:\n\ttorchrun a.py $(A:.py=.sh)\n", "$(A:.py=.sh), which"),
        ("A = d/e\nx:\n\ttorchrun a.py $(notdir $(A))\n", "$(notdir d/e), which"),
        ("d/x: c/a.yaml\n\ttorchrun a.py $(@D)\n", "$(@D), which"),
        ("x: a b\n\ttorchrun a.py --c $?\n", "$(?), which"),
        ("x:\n\ttorchrun a.py $(my-var)\n", "$(my-var)"),
        ("N = 2\nf = $(eval N = $(1))\n$(call f,3)\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
        ("N = 2\nf = $(eval N = $(1))y\nA := $(call f,3)\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
        ("N = 2\n$(foreach i,3 4,$(eval N := $(i)))\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
        ("N = 2\n$(if $(shell ls),$(eval N = 3),$(error no))\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
        ("-include *.mk\nN ?= 2\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
        ("-include $(wildcard *.mk)\nN ?= 2\nx:\n\ttorchrun a.py $(N)\n", "$(N)"),
    ],
)
def test_what_make_alone_knows_is_lacking(text: str, lacking: str) -> None:
    missing = explain_missing_value(parse_line(text))
    assert missing is not None
    assert lacking in missing.message


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("A = 1\nx:\n\ttorchrun a.py $AB\n", ["1B"]),
        ("A = $(B)\nifdef A\nN = 3\nelse\nN = 4\nendif\nx:\n\ttorchrun a.py $(N)\n", ["3"]),
        ("A = 1\nB ?= $(A)\nA = 2\nx:\n\ttorchrun a.py $(B)\n", ["2"]),
        ("A = v # c\nx:\n\ttorchrun a.py --x=$(A)y\n", ["--x=v", "y"]),
        ("x y: N = 3\nx:\n\ttorchrun a.py $(N)\ny:\n\ttrue\n", ["3"]),
        ("x: private N = 3\nx:\n\ttorchrun a.py $(N)\n", ["3"]),
        ("A = 1\nexport A\nunexport A\nx:\n\ttorchrun a.py $(A)\n", ["1"]),
        ("x:\n\ttorchrun a.py $@\nx y:\n", ["x"]),
        ("A = 1\nx:\n\ttorchrun a.py $(if $(A),-v 2> log)\n", ["-v"]),
        ("A = 5\nundefine A\nA += 6\noverride A += 7\nA = 8\nx:\n\ttorchrun a.py $(A)\n", ["6", "7"]),
        ("x:\n\texport A=2; true\n\tfalse || true\n\t-false\n\ttorchrun a.py\n", []),
        ("N ?= 2\nA = $(N)$(H)\nx:\n\ttorchrun a.py $(A)\n", ["9/h"]),
        ("ifeq ($(N),9)\nB = b\nelse\nB = c\nendif\nx: N = $(B)\nx:\n\ttorchrun a.py $(N)\n", ["b"]),
        ("include c.mk\nN ?= 3\nx:\n\ttorchrun a.py $(C) $(N)\n", ["of-c", "9"]),
        ("SHELL = /usr/bin/env bash -o pipefail\n.SHELLFLAGS = -ec\nx:\n\ttorchrun a.py | tee l\n", []),
        ("ifneq (,$(wildcard c.mk))\ninclude c.mk\nendif\nx:\n\ttorchrun a.py $(C)\n", ["of-c"]),
        ("ifneq (,$(wildcard .env))\ninclude .env\nexport\nendif\nx:\n\ttorchrun a.py\n", []),
        ("x:\nifeq ($(shell h),l)\n\techo not here; exit 1\nendif\n\ttorchrun a.py\n", []),
        ("x-%: M = 3\nx-y: M += 4\nx-y:\n\ttorchrun a.py $(M)\n", ["3", "4"]),
        ("x:\n\ttorchrun a.py $(CURDIR)/d\n", ["/w/d"]),
    ],
)
def test_variables_of_make_have_the_values_that_make_gives_them(text: str, args: list[str]) -> None:
    parsed = parse_line(text, {"N": "9", "H": "/h", "PWD": "/w"}, files={"c.mk": "C := of-c\n"}.get)
    assert explain_missing_value(parsed) is None
    assert (list(parsed.args), parsed.env.get("A")) == (args, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x:\n\tfalse\n\ttorchrun a.py\n", "ends with exit 1 before it launches"),
        (
            "define f\nN = $(1)\nendef\nN = 2\n$(eval $(call f,3))\nx:\n\ttorchrun a.py $(N)\n",
            r"has \$\(eval",
        ),
        ("x:\n\t$(eval export A = 3)\n\ttorchrun a.py\n", r"has \$\(eval export A = 3\)"),
        ("N = 2\n$(eval include c.mk)\nx:\n\ttorchrun a.py $(N)\n", r"has \$\(eval include c.mk\)"),
        ("$(foreach m,a b,$(eval t-$(m): ; torchrun a.py $(m)))\nx:\n\ttorchrun a.py\n", r"has \$\(eval t-"),
        ("x:\n\t@test -n '' || (echo no; exit 1)\n\ttorchrun a.py\n", "ends with exit 1 before it launches"),
        (
            "ifndef A\n$(error A is required)\nendif\nx:\n\ttorchrun a.py\n",
            "ends with exit 1 before it launches",
        ),
        (".SHELLFLAGS = -e\nx:\n\ttorchrun a.py\n", "to sh -e, which runs no commands of a shell"),
        ("SHELL = python3\nx:\n\ttorchrun a.py\n", "to python3 -c, which runs no commands of a shell"),
        ("A = $(wildcard *.py)\nx:\n\ttorchrun a.py '$(A)'\n", r"\$\(wildcard \*.py\), which has no value"),
        ("A = $(A)\nx:\n\ttorchrun a.py $(A)\n", r"\$\(A\), which has no value"),
        ("x:\nifeq ($(shell h),l)\n\ttorchrun a.py -v\nendif\n\techo x\n", "a shell loop or condition"),
        ("ifeq ($(shell h),l)\nx: N = 4\nendif\nx:\n\ttorchrun a.py $(N)\n", r"\$\(N\), which has no value"),
    ],
)
def test_what_make_would_not_run_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CommandRefused, match=reason):
        require_values(parse_line(text))


def test_a_shell_of_make_has_its_exported_variables_alone() -> None:
    missing = explain_missing_value(parse_line("A := 7\nx:\n\ttorchrun a.py $$A $(A)\n"))
    assert missing is not None
    assert "$A" in missing.message


@pytest.mark.parametrize("rest", [":\n" + 2000 * "\techo\n", f": {' need' * 2000}\n\techo\n"])
def test_rules_of_many_targets_with_many_lines_are_refused_at_once(rest: str) -> None:
    targets = " ".join(f"t{number}" for number in range(2000))
    with pytest.raises(CommandRefused, match="grow without end"):
        parse_line(f"{targets}{rest}x:\n\ttorchrun a.py\n")


def test_recipes_of_a_file_without_a_launcher_have_directories_of_their_own() -> None:
    text = "x:\n\tcd s; python -m pytest a\ny:\n\tcd t; python -m pytest b\n"
    assert [parse_line(text, {}, number=number).directory for number in (1, 2)] == ["s", "t"]


def test_a_condition_that_the_file_does_not_decide_is_named() -> None:
    said = parse_line("ifeq ($(shell h),l)\n$(error no)\nendif\nx:\n\ttorchrun a.py\n").dropped
    assert said == ("ifeq ($(shell h),l): the text does not decide it, and what it sets has no value",)


def test_what_gives_a_target_other_values_is_named() -> None:
    text = "debug: ARGS = -v\ndebug: x\nx:\n\ttorchrun a.py $(ARGS)\ny:\n\ttrue\n-include /etc/x.mk /w/y.mk\n"
    said = parse_line(text, {"PWD": "/w"}, files=lambda _: None).dropped
    assert [one.partition(":")[0] for one in said] == ["make debug ARGS=-v", "-include /etc/x.mk"]


def test_calls_of_make_within_a_recipe_are_named() -> None:
    text = "N = 1\nall:\n\t$(MAKE) x N=3\n\tpython b.py\nx:\n\t$(MAKE) -C data\n\ttorchrun a.py $(N) $@\n"
    parsed = parse_line(text, number=2)
    assert parsed.args == ("1", "x")
    assert [said.partition(":")[0] for said in parsed.dropped][:3] == ["make x N=3"] * 2 + ["make -C data"]


@pytest.mark.parametrize("word", ["configs/$*.yaml", "$<"])
def test_the_stem_of_a_pattern_is_asked_for(word: str) -> None:
    missing = explain_missing_value(parse_line(f"t-%: %.py\n\ttorchrun a.py --c {word}\n"))
    assert missing is not None
    assert "<your-stem>" in missing.message


@pytest.mark.parametrize("around", ["nix develop -c torchrun a.py", "nix-shell --run 'torchrun a.py'"])
def test_an_environment_of_nix_around_a_launch_is_refused(around: str) -> None:
    with pytest.raises(CommandRefused, match="an environment of its own for the command"):
        parse_line(around)


def test_direnv_around_a_launch_sets_what_nobody_sees() -> None:
    with pytest.raises(CommandRefused, match="variables that gpulaunch cannot see"):
        parse_line("direnv exec . torchrun a.py")


def test_compose_fills_in_defaults_and_names_what_has_none() -> None:
    environment = "      A: ${A:-1}\n      B: '${C-x y}'\n      D: ${D}\n"
    parsed = parse_line(
        f"services:\n  t:\n    environment:\n{environment}    command: [torchrun, a.py, '-n=${{N:-2}}']\n"
    )
    assert (parsed.env, list(parsed.args)) == ({"A": "1", "B": "x y"}, ["-n=2"])
    assert parsed.dropped[0].startswith("D (${D}): the manifest does not say its value")


def test_variables_on_one_line_are_read_where_all_are_plain() -> None:
    text = "services:\n  t:\n    environment: {{{0}}}\n    command: torchrun a.py\n"
    parsed = parse_line(text.format("A: '1', B: \"x, y\", C: z w,"))
    assert (parsed.env, parsed.dropped) == ({"A": "1", "B": "x, y", "C": "z w"}, ())
    parsed = parse_line(text.format("A: [1, 2], B: 1"))
    assert parsed.env == {}
    assert parsed.dropped[0].startswith("A, B: not read")


def test_compose_asks_for_what_it_demands_and_fills_in_defaults_of_defaults() -> None:
    text = "services:\n  t:\n    environment: {{A: '{}'}}\n    command: torchrun a.py\n"
    assert parse_line(text.format("${B:-${C:-x y}}")).env == {"A": "x y"}
    missing = explain_missing_value(parse_line(text.format("${B:?set B}")))
    assert missing is not None
    assert "the variable A has ${B:?set B}" in missing.message


@pytest.mark.parametrize(
    "count", ["nvidia-smi -L | wc -l", "python3 -c 'import torch; print(torch.cuda.device_count())'"]
)
def test_a_count_of_the_gpus_of_this_machine_is_the_plans(count: str) -> None:
    parsed = parse_line(f"export N=$({count})\ntorchrun --nproc_per_node $N a.py\n")
    assert (parsed.request.per_node, parsed.env, explain_missing_value(parsed)) == (None, {}, None)


def test_an_indented_block_below_two_colons_of_a_readme_is_the_command() -> None:
    parsed = parse_line("Run\n===\n\nOn 4 GPUs::\n\n    torchrun --nproc_per_node=4 a.py\n\nand wait.\n")
    assert (parsed.program, parsed.request.per_node, parsed.dropped) == ("a.py", 4, ())


def test_variables_in_a_list_on_one_line_are_read() -> None:
    text = "kind: Pod\nspec:\n  containers:\n  - name: t\n    env: [{0}]\n    command: [torchrun, a.py]\n"
    pairs = '{name: A, value: "1"}, {name: B, value: x y}'
    assert parse_line(text.replace("{0}", pairs)).env == {"A": "1", "B": "x y"}


def test_variables_of_a_taskfile_on_one_line_are_filled_in() -> None:
    command = "torchrun --nproc-per-node {{.N}} a.py {{.R}}"
    parsed = parse_line(f"vars: {{N: 4, R: '1e-4'}}\ntasks:\n  train:\n    cmds:\n      - {command}\n")
    assert (parsed.request.per_node, parsed.args) == (4, ("1e-4",))


def test_what_a_container_beside_that_of_the_launch_starts_is_named() -> None:
    pod = "kind: Pod\nspec:\n  containers:\n  - command: [tail, -f, /logs]\n  - command: [torchrun, a.py]\n"
    assert parse_line(pod).dropped[0].startswith("tail -f /logs: another command of the manifest")


def test_containers_of_which_none_trains_are_refused_by_their_commands() -> None:
    with pytest.raises(
        CommandRefused, match="2 commands, and none is a launcher, Python or a script: a b; c d"
    ):
        parse_line("services:\n  x:\n    command: a b\n  y:\n    command: c d\n")


@pytest.mark.parametrize(
    ("text", "env", "named"),
    [
        (
            '[tool.poe]\nenvfile = "e"\nenv = {A = "1"}\n[tool.poe.tasks]\nt = "torchrun a.py"\n',
            {"A": "1"},
            "envfile e",
        ),
        (
            '[tool.pdm.scripts]\n_.env_file = "e"\n_.env.A = "1"\nt = "torchrun a.py"\n',
            {"A": "1"},
            "env_file e",
        ),
        (
            '[activation]\nscripts = ["x"]\n[target.unix.activation.env]\nA = "1"\n[tasks]\nt= "python a.py"',
            {"A": "1"},
            "activation.scripts x",
        ),
        (
            '[feature.cuda.activation]\nenv = {A = "1"}\n[tasks]\nt = "torchrun a.py"\n',
            {},
            "env of a feature",
        ),
        (
            '[envs.x]\nenv-vars = {A = "1"}\n[envs.x.scripts]\nt = "python a.py"\n[envs.y.env-vars]\nB = "1"',
            {"A": "1"},
            "",
        ),
        ('[env]\nA = "1"\n_.file = "e"\n[tasks.t]\nrun = "torchrun a.py"\n', {"A": "1"}, "env._"),
        ('[env_run_base]\nset_env = {A = "1"}\n[env.t]\ncommands = [["torchrun", "a.py"]]\n', {"A": "1"}, ""),
    ],
)
def test_variables_beside_the_tasks_of_a_project_are_carried_or_named(
    text: str, env: dict[str, str], named: str
) -> None:
    parsed = parse_line(text)
    assert (parsed.env, [said.partition(":")[0] for said in parsed.dropped]) == (
        env,
        [named] if named else [],
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("export A=1 \\\ntorchrun a.py", "export has torchrun among its words, and starts nothing"),
        ("declare -x A=1 python3 a.py", "declare has python3 among its words"),
    ],
)
def test_a_text_whose_launch_never_starts_says_so(text: str, said: str) -> None:
    with pytest.raises(CommandRefused, match=said):
        parse_line(text)


def test_a_command_in_the_place_of_a_program_of_a_container_is_typed_out() -> None:
    with pytest.raises(CommandRefused) as refusal:
        parse_line("singularity exec --nv x.sif -c 'cd d && accelerate launch a.py'")
    assert refusal.value.fix.endswith("-- 'cd d && accelerate launch a.py'")
