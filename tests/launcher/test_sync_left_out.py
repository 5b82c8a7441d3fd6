"""What a script reads and a sync leaves out: found before the launch, and named in the diagnosis."""

import os
import shlex
from pathlib import Path

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.run_config import load_run_config
from launcher.config.sync_options import SyncOptions
from launcher.errors import ConfigError
from launcher.onhost.sync.target_state import TreeEntry
from launcher.sync.left_out import find_left_out, find_outside, is_write, list_inputs, list_modules
from launcher.sync.left_out_diagnosis import name_left_out
from launcher.sync.pre_launch import _list_left_out, render_left_out
from launcher.sync.sync import HostSync
from launcher.sync.tree import SourceTree, read_tree
from preflight.diagnosis.result import Cause, Diagnosis, Evidence
from preflight.job import Job
from tests.launcher.sync_tree import git, write


@pytest.mark.parametrize(
    ("script", "args", "expected"),
    [
        ("", ("--data", "d/x", "--lr=3"), ("d/x",)),
        ("", ("--data", "d", "--report_to", "wandb"), ("d",)),
        ("A(report_to='wandb', load='d/x')", (), ("d/x",)),
        ("A(output_dir='./out', data='./d')\nload('out/x')", (), ()),
        ("", ("--output_dir", "out", "--log-file=l.txt", "in.txt"), ("in.txt",)),
        ("", ("--resume_from_checkpoint", "out/c"), ("out/c",)),
        ("", ("data.path=d/x", "hydra.run.dir=r"), ("d/x",)),
        ("open('d/x')", (), ("d/x",)),
        ("open('out/x', 'w')\nos.listdir('out/x')", (), ()),
        ("os.makedirs('out')\nf('out/a')", (), ()),
        ("f('o/a')", ("p/o/b",), ("p/o/b", "o/a")),
        ("p.add_argument('--data', default='d/x')", (), ("d/x",)),
        ("p.add_argument('--save-dir', default='d/x')", (), ()),
        ("X = 'd/x'", (), ()),
        ("not python", ("a.x",), ("a.x",)),
        ("f('//host/d')\ng('http://a'.split('//'))", ("//d/x",), ("//d/x", "//host/d", "//", "http:/a")),
        ("-" * 90_000 + "1", (), ()),
    ],
)
def test_what_a_script_reads_is_listed(script: str, args: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert list_inputs(script, args, "", "") == expected


def test_a_path_is_seen_from_the_tree_and_the_output_is_none() -> None:
    assert list_inputs("", ("./a", "../b", "o/c"), "sub", "o") == ("sub/a", "b")


@pytest.mark.parametrize("by_git", [True, False])
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data/x", (".gitignore:2 (data/)", "data/")),
        ("sub/a.json", ("sub/.gitignore:1 (*.json)", "sub/a.json")),
        ("sub/kept.json", None),
        ("e.ckpt", ("sync.exclude (*.ckpt)", "e.ckpt")),
        ("train.py", None),
        ("nowhere", None),
        ("..", None),
        ("a\0b", None),
    ],
)
def test_the_rule_that_leaves_a_path_out_is_named(
    tmp_path: Path, path: str, found: tuple[str, str] | None, *, by_git: bool
) -> None:
    files = ("data/x", "sub/a.json", "sub/kept.json", "e.ckpt", "train.py")
    write(tmp_path, {**dict.fromkeys(files, "1"), ".gitignore": "# c\ndata/\n"})
    write(tmp_path, {"sub/.gitignore": "*.json\n!kept.json\n"})
    if by_git:
        git(tmp_path, "init", "-q")
    left_out = find_left_out(tmp_path, path, ("*.ckpt",))
    assert (None if left_out is None else (left_out.rule, left_out.top)) == found


def test_a_module_of_the_script_that_is_left_out_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"src/m.py": "import sent", "src/sent.py": "import left, torch", "src/left.py": "x = 1"})
    write(tmp_path, {".gitignore": "left.py\n", "broken.py": "import ("})
    assert set(list_modules(tmp_path, "src/m.py")) == {"src/sent.py", "src/left.py"}
    assert list_modules(tmp_path, "broken.py") == list_modules(tmp_path, "absent.py") == ()
    tree = read_tree(tmp_path, exclude=(), max_mib=1)
    found = [*_list_left_out(tree, SyncOptions(), Job(script="src/m.py"))]
    assert [(each.path, each.rule, each.top) for each in found] == [
        ("src/left.py", ".gitignore:1 (left.py)", "src/left.py")
    ]


def test_a_gitignore_that_is_a_link_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"a.x": "1", "rules": "*.x", "sub/é.x": "1", "sub/.gitignore": "\ufeff[\n\né*"})
    (tmp_path / ".gitignore").symlink_to("rules")
    assert find_left_out(tmp_path, "a.x", ()) is None
    left_out = find_left_out(tmp_path, "sub/é.x", ("!é*",))
    assert left_out is not None
    assert left_out.rule == "sub/.gitignore:3 (é*)"
    assert "sub/é.x" not in [entry.path for entry in read_tree(tmp_path, exclude=(), max_mib=1).entries]


def test_a_large_directory_and_a_link_are_for_rsync(tmp_path: Path) -> None:
    write(tmp_path, {"here/data/x": "12", "pool/y": "3", "here/.gitignore": "data/"})
    here = tmp_path / "here"
    (here / "pool").symlink_to(tmp_path / "pool")
    data, pool = (find_left_out(here, path, ()) for path in ("data/x", "pool/y"))
    assert data is not None
    assert pool is not None
    assert data.command(here, "b", "/t", 2) == "gpulaunch run ... --set sync.include=data/"
    by_word = find_left_out(here, "data/x", ("data",))
    assert by_word is not None
    assert by_word.command(here, "b", "/t", 2).startswith("rsync ")
    listed = data.command(here, "b", "/t", 2, ["a b"])  # --set replaces the list of a file
    assert listed == """gpulaunch run ... --set sync.include='["a b", "data/"]'"""
    assert data.command(here, "b", "/t", 1) == f"rsync -aR {here}/./data/ b:/t/"
    assert pool.command(here, "b", "/t", 9) == f"rsync -a {tmp_path}/pool/ b:{tmp_path}/pool/"
    by_key = data.command(here, "ssh -p 41022 -i '/a b' root@192.0.2.1", "/t", 1)
    assert (
        by_key
        == f"""rsync -e {shlex.quote("ssh -p 41022 -i '/a b'")} -aR {here}/./data/ root@192.0.2.1:/t/"""
    )
    assert data.command(here, "ssh ada@2001:db8::1", "/t", 1).endswith(" 'ada@[2001:db8::1]':/t/")


def test_an_argument_beside_the_tree_is_named_with_what_copies_it(tmp_path: Path) -> None:
    write(tmp_path, {"here/d/x": "12", "pool/y": "3"})
    here = tmp_path / "here"
    for path, rule, command in (
        ("../pool", "it lies outside the tree", f"rsync -a {tmp_path}/pool/ b:/w/pool/"),
        (
            f"{tmp_path}/pool/y",
            "it lies outside the tree",
            f"rsync -aR --no-implied-dirs {tmp_path}/pool/y b:/",
        ),
        (f"{here}/d/x", "in the tree it is d/x", f"rsync -aR --no-implied-dirs {here}/d/x b:/"),
    ):
        found = find_outside(here, path)
        assert found is not None
        assert (found.rule, found.command(here, "b", "/w/t", 9)) == (rule, command)
    none = ("d/x", "../none", "/none\0", "..", "../..", "/", "//", str(tmp_path), "/dev/null")
    assert [find_outside(here, path) for path in none] == [None] * len(none)


def test_an_included_path_is_sent_whatever_gitignore_says(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(("data/x.txt", "data/y.bin", "data/.git/c", "train.py"), "1"))
    write(tmp_path, {".gitignore": "data/\n"})

    def sent(*include: str) -> list[str]:
        tree = read_tree(tmp_path, exclude=("y.bin",), max_mib=1, include=include)
        return [entry.path for entry in tree.entries]

    assert sent() == [".gitignore", "train.py"]
    assert (
        sent("/data/")
        == sent("data/*.txt")
        == sent("**")
        == sent("./data/../data/x.txt")
        == [".gitignore", "data/x.txt", "train.py"]
    )
    (tmp_path / "out").symlink_to("/")
    for none in ("dta", "../x", "/", ".", "..", "a**b", "out/etc"):
        with pytest.raises(ConfigError, match=r"sync\.include"):
            sent(none)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("No such file or directory: '../data/x'", "r", ("ls -ld data", "general")),
        ("No such file or directory: 'data/x'", "r", ("sync.include=data/", "")),
        ("Unable to find '/there/data/x'", "r", ("sync.include=data/", "")),
        ("No such file or directory: '{here}/data/x'", "r", ("sync.include=data/", "name it data/x in")),
        ("No such file or directory: '{here}/train.py'", "r", ("", "name it train.py")),
        ("No such file or directory: 'data/x'", "open(p, 'w')", ("ls -ld data", "general")),
        ("No such file or directory: 'data/y'", "r", ("ls -ld data", "general")),
        ("No such file or directory: '/other/data/x'", "r", ("ls -ld data", "general")),
    ],
)
def test_a_missing_file_that_was_left_out_is_named_as_such(
    tmp_path: Path, text: str, line: str, expected: tuple[str, str]
) -> None:
    write(tmp_path, {"data/x": "1", "train.py": line, ".gitignore": "data/"})
    evidence = (Evidence(1, 0, "FileNotFoundError: " + text.format(here=tmp_path), "", "b"),)
    place = "/there/train.py:1"
    cause = Cause("S92", "missing-file", "likely", "c", "general", evidence, place, 0, "b", "ls -ld data")
    source = {"from": str(tmp_path), "hosts": {"b": {"directory": "/there"}}}
    (found,) = name_left_out(Diagnosis("missing-file", (cause,), ()), source, {"b": "~/there"}).causes
    assert expected[0] in found.command
    assert expected[1] in found.fix
    for damaged in ({}, {"from": str(tmp_path)}, {**source, "hosts": 3}):
        assert name_left_out(Diagnosis("missing-file", (cause,), ()), damaged, {}).causes == (cause,)


def test_a_submodule_that_is_not_checked_out_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"lib/a.py": "1", "top/train.py": "2"})
    for name in ("lib", "top"):
        git(tmp_path / name, "init", "-q")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-qm", "one")
    git(tmp_path / "top", "-c", "protocol.file.allow=always", "submodule", "-q", "add", "../lib", "sub")
    git(tmp_path / "top", "commit", "-qm", "two")
    git(tmp_path / "top", "submodule", "-q", "deinit", "-f", "sub")
    tree = read_tree(tmp_path / "top", exclude=(), max_mib=1)
    assert [entry.path for entry in tree.entries] == [".gitmodules", "train.py"]
    assert tree.notes == ("sub is empty: a submodule? `git submodule update --init` fills it",)
    git(tmp_path / "top", "-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init")
    write(tmp_path / "top", {"sub/w.bin": "1", "sub/.gitignore": "*.bin"})
    left_out = find_left_out(tmp_path / "top", "sub/w.bin", ())
    assert left_out is not None
    assert left_out.rule == "sub/.gitignore:1 (*.bin)"


@pytest.mark.parametrize(
    ("start", "missing"), [("~/there/sub", "x"), ("~/there", "sub/x"), ("/r/there/sub", "x"), ("", "sub/x")]
)
def test_a_missing_file_is_found_from_where_the_ranks_start(tmp_path: Path, start: str, missing: str) -> None:
    write(tmp_path, {"sub/x": "1", ".gitignore": "x"})
    evidence = (Evidence(1, 0, f"FileNotFoundError: '{missing}'", "", "b"),)
    cause = Cause("S92", "missing-file", "likely", "c", "general", evidence, "", 0, "b", "")
    source = {"from": str(tmp_path), "hosts": {"b": {"directory": "/r/there"}}}
    (found,) = name_left_out(Diagnosis("missing-file", (cause,), ()), source, {"b": start}).causes
    assert found.command.endswith("--set sync.include=sub/x")


@pytest.mark.parametrize(
    "name", ["a", "[a]", "a: b", "#a", "null", "~", "a b", "-a", "*", "2", "true", "{a}"]
)
def test_the_named_command_sends_a_path_of_any_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "1", ".gitignore": "*\n"})
    left_out = find_left_out(tmp_path, name, ("x", "!x"))
    assert left_out is not None
    (word,) = shlex.split(left_out.command(tmp_path, "b", "/t", 2))[4:]
    config = tmp_path / ".yaml"
    config.write_text("command: python -m a\nsync: true\n")
    sync = load_run_config(str(config), Overrides(key_values=(word,))).sync
    assert sync is not None
    assert [
        entry.path for entry in read_tree(tmp_path, exclude=(), max_mib=1, include=sync.include).entries
    ] == [name]


def test_each_command_includes_what_those_before_it_send(tmp_path: Path) -> None:
    write(tmp_path, {"a": "1", "b/c": "1", "b/d": "1", "e": "12", ".gitignore": "*"})
    spec = SyncOptions(include=("f",))
    left_out = {path: find_left_out(tmp_path, path, ()) for path in ("a", "b/c", "b/d", "e")}
    known = {path: what for path, what in left_out.items() if what is not None}
    tree = SourceTree(tmp_path, (TreeEntry("f", "f", 0, (512 << 20) - 4, ""),), from_git=False, notes=())
    lines = [
        *render_left_out(
            tree,
            spec,
            known,
            {"n": HostSync("/t", lacks=(*known, "g")), "o": HostSync("/t", lacks=("a", "e"))},
        )
    ]
    lists = [line.partition("sync.include=")[2] for line in lines]
    assert lists == ["""'["f", "a"]'""", """'["f", "a", "b/"]'""", ""]
    assert [line.count("rsync -aR") for line in lines] == [0, 0, 1]
    assert [line.endswith(", and so to o") for line in lines] == [False, False, True]
    pool = find_outside(tmp_path, "/etc")
    assert pool is not None
    many = {f"{n}": pool for n in range(23)}
    *lines, rest = render_left_out(tree, spec, many, {"n": HostSync("/t", lacks=tuple(many))})
    assert (len(lines), rest) == (20, "sync: 3 more paths of the script are lacking on hosts")


def test_what_a_log_names_is_read_in_the_tree_alone(tmp_path: Path) -> None:
    write(tmp_path, {"tree/a.py": "open(p, 'w')", "b.py": "open(p, 'w')"})
    os.mkfifo(tmp_path / "tree/pipe")
    places = ("a.py:1", "../b.py:1", f"{tmp_path}/b.py:1", "/dev/zero:1", "pipe:1", "a.py:9", "a.py")
    assert [place for place in places if is_write(tmp_path / "tree", place)] == ["a.py:1"]
