"""hosts.yaml and the words that name hosts."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry, Inventory
from launcher.config.inventory_reader import find_misnamed_inventory, load_inventory
from launcher.errors import BadInput, ConfigError

EXAMPLE = Path(__file__).parents[2] / "hosts.example.yaml"

CLUSTER = """\
defaults: {user: ada, env: {A: 1, B: 2}, expect: {gpus: 4}}
hosts:
  titan: {address: 10.0.0.7, port: 2222, jump: "gate,user@inner:22"}
  l40s-[01-04]: {address: "10.1.0.[1-4]", env: {B: no}}
  l40s-03: {gpus: [0, GPU-1f2e], expect: {driver: ">=550"}}
  p100:
groups:
  ada: ["l40s-[01-04]"]
  some: [p100, "@ada"]
"""


def load(folder: Path, text: str) -> Inventory:
    path = folder / "hosts.yaml"
    path.write_text(text)
    return load_inventory(path)


def names(entries: tuple[HostEntry, ...]) -> list[str]:
    return [entry.name for entry in entries]


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Inventory:
    return load(tmp_path, CLUSTER)


def test_the_example_loads() -> None:
    inventory = load_inventory(EXAMPLE)
    servers = ["titan", "l40s-01", "l40s-02", "l40s-03", "l40s-04", "p100"]
    assert list(inventory.hosts) == [*servers, "a100", "w-0", "w-1"]
    assert inventory.hosts["l40s-03"].address == "10.0.1.3"
    assert inventory.hosts["l40s-03"].gpus == (0, 1, 2)
    assert inventory.hosts["l40s-02"].env == {"NCCL_IB_DISABLE": "1"}
    assert inventory.groups["everything-old"] == ("titan", "p100")


def test_a_range_stands_for_several_hosts_and_a_plain_name_refines_it(cluster: Inventory) -> None:
    third = cluster.hosts["l40s-03"]
    assert (third.address, third.gpus, third.user) == ("10.1.0.3", (0, "GPU-1f2e"), "ada")
    assert third.env == {"A": "1", "B": "no"}
    assert (third.expect.gpus, third.expect.driver) == (4, ">=550")
    assert cluster.hosts["l40s-02"].gpus == "all"


def test_a_host_without_settings_has_the_defaults(cluster: Inventory) -> None:
    host = cluster.hosts["p100"]
    assert (host.address, host.port, host.user, host.alias, host.python) == (
        "",
        None,
        "ada",
        "p100",
        "python3",
    )


def test_jump_hosts_are_separated_as_ssh_separates_them(cluster: Inventory) -> None:
    assert cluster.hosts["titan"].jump == ("gate", "user@inner:22")


def test_an_empty_list_of_jump_hosts_means_directly(tmp_path: Path) -> None:
    inventory = load(tmp_path, "defaults: {jump: gate}\nhosts:\n  a: {jump: []}\n  b: {jump: none}\n")
    assert inventory.hosts["a"].jump == inventory.hosts["b"].jump == ("none",)


def test_an_identity_file_is_a_path_here(tmp_path: Path) -> None:
    inventory = load(tmp_path, "hosts:\n  a: {identity_file: keys/a}\n  b: {identity_file: ~/.ssh/b}\n")
    assert inventory.hosts["a"].identity_file == str(tmp_path / "keys/a")
    assert inventory.hosts["b"].identity_file == str(Path.home() / ".ssh/b")


def test_paths_there_stay_as_written(tmp_path: Path) -> None:
    inventory = load(tmp_path, "hosts: {a: {python: ~/v/bin/python, workdir: ~/p}, b: {workdir: ~}, c: ~}")
    assert [inventory.hosts[name].workdir for name in "bc"] == ["~", ""]
    assert (inventory.hosts["a"].python, inventory.hosts["a"].workdir) == ("~/v/bin/python", "~/p")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["titan"], ["titan"]),
        (["all"], ["titan", "l40s-01", "l40s-02", "l40s-03", "l40s-04", "p100"]),
        (["ada"], ["l40s-01", "l40s-02", "l40s-03", "l40s-04"]),
        (["@some"], ["p100", "l40s-01", "l40s-02", "l40s-03", "l40s-04"]),
        (["l40s-[03-04],titan"], ["l40s-03", "l40s-04", "titan"]),
        (["titan", "titan", "l40s-02", "ada"], ["titan", "l40s-02", "l40s-01", "l40s-03", "l40s-04"]),
        (["@ada!l40s-02"], ["l40s-01", "l40s-03", "l40s-04"]),
        (["ada!l40s-[02-03]"], ["l40s-01", "l40s-04"]),
        (["all!ada"], ["titan", "p100"]),
        (["titan,ada!l40s-[01-03]"], ["titan", "l40s-04"]),
        (["new-[1-2]!new-1"], ["new-2"]),
        (["new-[1-2]"], ["new-1", "new-2"]),
        (["localhost"], ["localhost"]),
    ],
)
def test_words_name_hosts_in_the_order_given(
    cluster: Inventory, words: list[str], expected: list[str]
) -> None:
    assert names(cluster.resolve(words)) == expected


@pytest.mark.parametrize(
    ("word", "alias", "user", "port"),
    [
        ("box", "box", "ada", None),
        ("eve@box", "box", "eve", None),
        ("eve@10.0.0.7:2222", "10.0.0.7", "eve", 2222),
        ("[::1]:22", "::1", "ada", 22),
        ("eve@[fe80::1%eth0]:2200", "fe80::1%eth0", "eve", 2200),
        ("::1", "::1", "ada", None),
    ],
)
def test_unlisted_names_work_as_with_ssh(
    cluster: Inventory, word: str, alias: str, user: str, port: int | None
) -> None:
    (entry,) = cluster.resolve([word])
    assert (entry.name, entry.alias, entry.user, entry.port) == (word, alias, user, port)
    assert not entry.in_inventory
    assert not entry.is_local


def test_localhost_needs_no_ssh_and_takes_no_defaults(cluster: Inventory) -> None:
    (entry,) = cluster.resolve(["localhost"])
    assert entry.is_local
    assert entry.user == ""
    assert entry.python in (sys.executable, "python3")


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("hosts: {localhost: {}}", sys.executable),  # torch is beside us
        ("hosts: {localhost: }", sys.executable),
        ("defaults: {python: /d}\nhosts: {localhost: {python: /usr/bin/python3}}", "/usr/bin/python3"),
        ("hosts: {localhost: {via: {docker: train}}}", "python3"),
    ],
)
def test_localhost_that_is_listed_has_the_interpreter_of_one_that_is_not(
    tmp_path: Path, text: str, python: str
) -> None:
    (entry,) = load(tmp_path, text).resolve(["localhost"])
    assert entry.python == python


def test_localhost_with_an_address_is_a_host_like_others(tmp_path: Path) -> None:
    (entry,) = load(tmp_path, "hosts: {localhost: {address: 127.0.0.1, port: 2200}}").resolve(["localhost"])
    assert not entry.is_local


@pytest.mark.parametrize(
    "word",
    [
        "",
        "-oProxyCommand=x",
        "ada!titan",
        "a b",
        "a\nb",
        "@nobody",
        "eve@",
        "@",
        "box:0",
        "box:65536",
        "box:ssh",
        "a[1-",
        "a[4-1]",
        "x[1-99999999]",
        "x[1-300][1-300]",
        "ada&titan",
        "user@-x",
        "a\x1b[31m",
        "box:22:22x",
    ],
)
def test_a_word_that_names_no_host_is_refused(cluster: Inventory, word: str) -> None:
    with pytest.raises(BadInput):
        cluster.resolve([word])


def test_no_words_and_an_empty_all_are_refused() -> None:
    with pytest.raises(BadInput, match="no host is named"):
        Inventory().resolve([])
    with pytest.raises(BadInput, match=r"hosts\.yaml was not found"):
        Inventory().resolve(["all"])
    with pytest.raises(BadInput, match=r"lab/h\.yaml lists no hosts") as refused:
        Inventory(path=Path("lab/h.yaml")).resolve(["all"])
    assert "prints what to write into it" in refused.value.fix


def test_an_unknown_group_is_named_with_the_nearest(cluster: Inventory) -> None:
    with pytest.raises(BadInput, match='did you mean "some"'):
        cluster.resolve(["@soem"])


def test_a_host_of_another_number_is_no_misspelling() -> None:
    inventory = Inventory(hosts={name: HostEntry(name) for name in ("l40s-01", "l40s-02")})
    assert [inventory.suggest(word) for word in ("l40s-04", "l40s-1", "l40-01")] == ["", "l40s-01", "l40s-01"]


@pytest.mark.parametrize("word", ["titan,", ",titan", "titan, "])
def test_a_comma_too_many_changes_no_host(word: str) -> None:
    assert names(Inventory(hosts={"titan": HostEntry("titan")}).resolve([word])) == ["titan"]


def test_the_nearest_listed_name_can_be_asked_for(cluster: Inventory) -> None:
    assert cluster.suggest("tital") == "titan"
    assert cluster.suggest("10.0.0.9") == ""


def test_the_working_directory_wins_over_the_users_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "config" / "gpulaunch"
    user.mkdir(parents=True)
    (user / "hosts.yaml").write_text("hosts: {mine: }")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    assert list(load_inventory(None).hosts) == ["mine"]
    (tmp_path / "hosts.yaml").write_text("hosts: {here: }")
    assert list(load_inventory(None).hosts) == ["here"]


def test_without_a_file_every_name_is_unlisted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    inventory = load_inventory(None)
    assert inventory.path is None
    assert names(inventory.resolve(["localhost", "titan"])) == ["localhost", "titan"]


@pytest.mark.parametrize(
    ("name", "text", "is_ours"),
    [
        ("hosts.yml", "# mine\nhosts:\n  titan: {}\n", True),
        ("hosts.yml", "all:\n  hosts:\n    titan:\n", False),  # Ansible's
        ("hosts.yaml", "hosts: {titan: {}}\n", False),
    ],
)
def test_a_file_of_ours_by_another_name_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, *, is_ours: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    assert find_misnamed_inventory() == (Path("hosts.yml") if is_ours else None)


def test_a_file_that_is_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_inventory(tmp_path / "none.yaml")


def test_the_beginning_of_a_name_brings_the_name_to_mind() -> None:
    inventory = Inventory(hosts={name: HostEntry(name) for name in ("titan", "l40s-01", "l40s-02")})
    inventory = replace(inventory, groups={"rack1": ("titan",)})
    assert [inventory.suggest(word) for word in ("l40s", "tit", "titam", "p100", "rack", "rack2", "al")] == [
        "l40s-01",
        "titan",
        "titan",
        "",
        "rack1",
        "",
        "all",
    ]


def test_a_listed_host_may_be_typed_as_for_ssh() -> None:
    """`gpulaunch init --hosts root@192.0.2.7:41022` lists it as 192.0.2.7, and the next command may not."""
    hosts = {
        "192.0.2.7": HostEntry("192.0.2.7", user="root", port=41022, python="/opt/conda/bin/python"),
        "box": HostEntry("box", address="192.0.2.8", user="root"),
    }
    inventory = Inventory(hosts=hosts)
    assert inventory.resolve(["root@192.0.2.7:41022", "192.0.2.7"]) == (hosts["192.0.2.7"],)
    assert inventory.lookup("root@192.0.2.8") == inventory.lookup("root@box") == hosts["box"]
    ada = inventory.lookup("ada@box:2222")
    assert (ada.name, ada.address, ada.user, ada.port) == ("ada@box:2222", "192.0.2.8", "ada", 2222)
    listed = Inventory(hosts={"192.0.2.9": HostEntry("192.0.2.9", user="root", port=22)})
    assert listed.lookup("root@192.0.2.9").in_inventory  # 22 is the port that ssh takes without one
    for other in ("ada@192.0.2.7:41022", "root@192.0.2.7:22", "root@192.0.2.7", "192.0.2.8"):
        assert not inventory.lookup(other).in_inventory


def test_words_may_have_blanks_around_their_commas(cluster: Inventory) -> None:
    assert names(cluster.resolve(["titan, p100"])) == ["titan", "p100"]
    with pytest.raises(BadInput) as caught:
        cluster.resolve(["titan p100"])
    assert caught.value.fix == 'separate hosts by commas: "titan,p100"'


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("ssh root@192.0.2.7 -p 41022", "write it as root@192.0.2.7:41022"),
        ("root@192.0.2.7 -p 41022", "write it as root@192.0.2.7:41022"),
        ("ssh://root@192.0.2.7:41022", "write it as root@192.0.2.7:41022"),
        ("ssh://root@[fd00::7]:22/", "write it as root@[fd00::7]:22"),
        ("ssh -p41022 -L 8080:localhost:80 -o A=no root@192.0.2.7", "write it as root@192.0.2.7:41022"),
        ("ssh -p 22 -i ~/key.pem titan", "write it as titan:22 --identity-file ~/key.pem"),
        ("ssh -p 22 -i key.pem -l ada titan", "write it as ada@titan:22 --identity-file key.pem"),
    ],
)
def test_an_ssh_command_as_pages_show_it_is_answered_with_the_word_that_it_means(word: str, fix: str) -> None:
    with pytest.raises(BadInput, match="is not a host") as caught:
        Inventory().resolve([word])
    assert caught.value.fix == fix


def test_a_private_key_is_no_inventory_and_nothing_of_it_is_shown(tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n")
    with pytest.raises(ConfigError, match=r"is a private key, expected a hosts\.yaml") as caught:
        load_inventory(key)
    assert caught.value.fix == f"--identity-file {key}, or identity_file in hosts.yaml"
    assert "c2Vj" not in caught.value.message


def test_an_address_may_stand_in_brackets(tmp_path: Path) -> None:
    assert load(tmp_path, "hosts: {a: {address: '[fe80::1%eth0]'}}\n").hosts["a"].address == "fe80::1%eth0"
