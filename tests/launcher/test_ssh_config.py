"""Endpoints: hosts.yaml wins, then ssh_config as OpenSSH reads it."""

import os
import subprocess
from getpass import getuser
from pathlib import Path
from typing import NoReturn

import pytest

from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import (
    AuthenticationFailed,
    BadInput,
    ConfigError,
    ConnectionRefused,
    HostError,
    HostKeyUnknown,
    NameNotResolved,
    PythonNotFound,
)
from launcher.exit_codes import ExitCode
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh import config_parser, endpoint
from launcher.transports.ssh.endpoint import build_endpoint, build_opener
from tests.launcher.sshd import require_ssh

UID_WITHOUT_ACCOUNT = 3_999_999_999


def merged(tmp_path: Path, text: str, entry: HostEntry, *others: HostEntry) -> Endpoint:
    config = tmp_path / "config"
    config.write_text(text)
    inventory = Inventory(hosts={one.name: one for one in (entry, *others)})
    return build_endpoint(entry, inventory, config)


def test_ssh_config_gives_what_hosts_yaml_leaves_open(tmp_path: Path) -> None:
    got = merged(
        tmp_path,
        '# x\nHost ti*n !tin\n  HostName %h.example.org\n  Port = 2222\n  User "ada"\n IdentityFile ~/k1\n'
        "  UserKnownHostsFile /a/kh /b/kh\n  IdentityAgent none\n  IdentitiesOnly yes\n  ConnectTimeout 4\n"
        "  HostKeyAlias ours\n  HashKnownHosts yes\nHost *\n  User bob\n  IdentityFile /k2-%r\n",
        HostEntry("titan"),
    )
    assert (got.address, got.port, got.user) == ("titan.example.org", 2222, "ada")
    assert (got.reach_timeout_s, got.connect_timeout_s) == (4.0, 4.0)
    assert got.identity_files == ("~/k1", "/k2-ada")
    assert got.known_hosts_files == ("/a/kh", "/b/kh")
    assert (got.identity_agent, got.identities_only, got.host_key_alias) == ("none", True, "ours")
    assert got.hash_known_hosts


@pytest.mark.parametrize(
    ("word", "policy"),
    [("yes", "refuse"), ("ask", "ask"), ("accept-new", "accept"), ("no", "unchecked"), ("OFF", "unchecked")],
)
def test_checking_of_host_keys_is_as_ssh_config_says(tmp_path: Path, word: str, policy: str) -> None:
    got = merged(tmp_path, f"Host *\n  StrictHostKeyChecking {word}\n", HostEntry("titan"))
    assert got.new_host_keys == policy


def test_certificate_files_are_all_taken_with_their_tokens(tmp_path: Path) -> None:
    text = "CertificateFile ~/%n-cert.pub\nHost *\n  CertificateFile none\n  CertificateFile /b\n"
    got = merged(tmp_path, text, HostEntry("titan"))
    assert got.certificate_files == ("~/titan-cert.pub", "/b")


def test_hosts_yaml_wins(tmp_path: Path) -> None:
    entry = HostEntry("titan", "10.0.0.7", 22, "eve", "/key", ("none",))
    got = merged(
        tmp_path, "Host *\n HostName other\n Port 1\n User bob\n IdentityFile /k\n ProxyJump gate\n", entry
    )
    assert (got.address, got.port, got.user, got.jumps) == ("10.0.0.7", 22, "eve", ())
    assert got.identity_files == ("/key", "/k")


def test_the_key_that_the_command_names_is_offered_first_to_the_host_and_its_jump_host(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n IdentityFile /k\n")
    entry = HostEntry("titan", identity_file="/key", jump=("gate",))
    got = build_endpoint(entry, Inventory(identity_file="/named"), config)
    assert got.identity_files == ("/named", "/key", "/k")
    assert got.jumps[0].identity_files == ("/named", "/k")


def test_an_unlisted_host_gets_sshs_defaults(tmp_path: Path) -> None:
    got = merged(tmp_path, "", HostEntry("titan"))
    assert (got.address, got.port, got.user) == ("titan", 22, getuser())


@pytest.fixture
def _without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: UID_WITHOUT_ACCOUNT)


@pytest.mark.usefixtures("_without_a_name")
@pytest.mark.parametrize(
    "text", ["", "Match user ada\n Port 2\n", "Match localuser ada\n", "Host *\n IdentityFile /k/%u\n"]
)
def test_a_local_user_without_a_name_must_give_one(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"no user name.* uid {UID_WITHOUT_ACCOUNT}") as caught:
        merged(tmp_path, text, HostEntry("titan"))
    assert "LOGNAME" in caught.value.fix


@pytest.mark.usefixtures("_without_a_name")
def test_a_local_user_without_a_name_logs_in_as_whom_it_names(tmp_path: Path) -> None:
    got = merged(tmp_path, "Match user ada\n Port 2\n", HostEntry("titan", user="ada"))
    assert (got.user, got.port) == ("ada", 2)


@pytest.mark.parametrize(
    ("typed", "fix"),
    [
        ("titann.invalid", 'did you mean "titan.invalid" of hosts.yaml?'),
        (
            "behind.invalid",
            "check the spelling, or set `address:` in hosts.yaml or HostName in ~/.ssh/config",
        ),
        ("17_3", "17_3 is the id of a Slurm job: gpulaunch ps 17_3 lists its runs"),
        (
            "hosts.txt.invalid",
            "names of a file: --hosts \"$(grep -oE '^[[:alnum:]@._-]+' hosts.txt.invalid | paste -sd, -)\"",
        ),
        ("notes.invalid", "check the spelling, or set `address:` in hosts.yaml or HostName in ~/.ssh/config"),
        ("bastoin.invalid", 'did you mean "bastion.invalid" of your ssh_config?'),
        ("other", '{config}:6: "hostnme" is not a keyword of ssh_config; did you mean "hostname"?'),
        ("moved", "correct HostName in {config}:10"),
        ("bare", "add a line `HostName ADDRESS` below `Host bare` in your ssh_config"),
    ],
)
def test_a_name_that_does_not_resolve_is_compared_with_the_known_ones(
    typed: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.txt.invalid").write_text("# ours\ntitan slots=8\n\nada@192.0.2.7:4\n")
    Path("notes.invalid").write_text("step 1: loss 2\n")
    text = "Host bastio*.invalid bastion.invalid\n Port 2\n"
    more = "Host behind.invalid\n ProxyJump nobody.invalid\nHost other\n Hostnme 127.0.0.1\nHost bare\n"
    more += "Host moved\n HostKeyAlias m\n HostName gone.invalid\n"
    (tmp_path / "config").write_text(text + more)
    inventory = Inventory(hosts={"titan.invalid": HostEntry("titan.invalid", "127.0.0.1")})
    opener = build_opener(inventory, OpenOptions(), tmp_path / "config")
    with pytest.raises(NameNotResolved) as caught:
        opener(inventory.lookup(typed))
    assert caught.value.fix == fix.format(config=tmp_path / "config")


@pytest.mark.parametrize(
    ("text", "jump"), [("", ("ada@bastoin.invalid",)), ("Host titan\n ProxyJump ada@bastoin.invalid\n", ())]
)
def test_a_jump_host_that_does_not_resolve_is_compared_with_the_listed_ones(
    text: str, jump: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(text)
    entry = HostEntry("titan", "127.0.0.1", jump=jump)
    bastion = HostEntry("bastion.invalid", "127.0.0.1")
    inventory = Inventory(hosts={one.name: one for one in (entry, bastion)})
    with pytest.raises(NameNotResolved) as caught:
        build_opener(inventory, OpenOptions(), tmp_path / "config")(entry)
    assert caught.value.fix == 'did you mean "bastion.invalid" of hosts.yaml?'


def test_localhost_needs_no_ssh(tmp_path: Path) -> None:
    assert merged(tmp_path, "", HostEntry("localhost")).transport == "local"


def test_jump_hosts_are_hosts_of_their_own_and_only_the_first_brings_its_jumps(tmp_path: Path) -> None:
    text = (
        "Host titan\n ProxyJump gate,ada@inner:2200\nHost gate\n ProxyJump outer\nHost inner\n ProxyJump no\n"
    )
    got = merged(tmp_path, text, HostEntry("titan"), HostEntry("gate", "10.9.9.9"))
    assert [(hop.address, hop.port) for hop in got.jumps] == [
        ("outer", 22),
        ("10.9.9.9", 22),
        ("inner", 2200),
    ]
    assert got.jumps[2].user == "ada"


def test_a_jump_host_that_names_itself_is_reached_directly(tmp_path: Path) -> None:
    got = merged(tmp_path, "Host *\n ProxyJump gate\n", HostEntry("titan"))
    assert [(hop.name, hop.jumps) for hop in got.jumps] == [("gate", ())]


AS_SSH = {
    "a backslash": "User CORP\\ada\n",
    "a hash in a word": "User ada#1 # and a comment\n",
    "quotes": 'User "ada \\"the first\\""\nUserKnownHostsFile "/a b" /c\n',
    "an equals sign": "HostName=10.0.0.9\nPort = 2201\n",
    "environment variables": "UserKnownHostsFile ${HOME}/kh\nIdentityAgent ${HOME}/agent\n",
    "the key's alias": "HostKeyAlias ours\nUserKnownHostsFile /kh_%k_%n\n",
    "no files": "UserKnownHostsFile none\nGlobalKnownHostsFile none\n",
    "files of the system": "GlobalKnownHostsFile /a /b\n",
    "a time": "ConnectTimeout 1m30s\n",
    "a command before jumps": "ProxyCommand nc\nProxyJump gate\n",
    "jumps before a command": "ProxyJump gate\nProxyCommand nc\n",
    "no jump, then a command": "ProxyJump none\nProxyCommand nc\n",
    "no command, then jumps": "ProxyCommand none\nProxyJump gate\n",
}


@pytest.mark.parametrize("text", AS_SSH.values(), ids=AS_SSH)
def test_a_value_means_what_it_means_to_ssh(tmp_path: Path, text: str) -> None:
    require_ssh()
    got = merged(tmp_path, text, HostEntry("titan"))
    printed = subprocess.run(
        ["ssh", "-G", "-F", str(tmp_path / "config"), "titan"], capture_output=True, text=True, check=True
    ).stdout
    ssh = dict(line.split(" ", 1) for line in printed.splitlines() if " " in line)
    for key, files in (
        ("userknownhostsfile", got.known_hosts_files),
        ("globalknownhostsfile", got.system_known_hosts_files),
    ):
        assert not files or " ".join(files).replace("/dev/null", "none") == ssh[key]
    assert (got.user, got.address, str(got.port)) == (ssh["user"], ssh["hostname"], ssh["port"])
    assert got.reach_timeout_s == float(ssh["connecttimeout"].replace("none", "6"))
    assert got.connect_timeout_s == float(ssh["connecttimeout"].replace("none", "10"))
    assert got.identity_agent == ssh.get("identityagent", "")
    assert ",".join(hop.name for hop in got.jumps) == ssh.get("proxyjump", "")
    assert got.proxy_command == ssh.get("proxycommand", "").replace("none", "")


def test_a_jump_host_may_be_named_after_the_host(tmp_path: Path) -> None:
    got = merged(tmp_path, "Host titan\n ProxyJump %h-gate\n", HostEntry("titan", "10.0.0.7"))
    assert [hop.address for hop in got.jumps] == ["10.0.0.7-gate"]


def test_a_key_may_be_named_by_an_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_KEYS", "/keys/%h")
    got = merged(tmp_path, "IdentityFile ${CLUSTER_KEYS}/%n\n", HostEntry("titan"))
    assert got.identity_files == ("/keys/%h/titan",)
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigError, match="config:1: the environment variable NOT_SET_HERE is not set"):
        merged(tmp_path / "other", "IdentityFile ${NOT_SET_HERE}/x\n", HostEntry("titan"))


def test_a_proxy_command_keeps_its_quotes_and_gets_its_tokens(tmp_path: Path) -> None:
    got = merged(tmp_path, "Host *\n ProxyCommand nc -x 'a b' %h %p # %%\n", HostEntry("titan", port=7))
    assert got.proxy_command == "nc -x 'a b' titan 7 # %"


def test_match_and_include_are_followed(tmp_path: Path) -> None:
    (tmp_path / "more").write_text(
        'Host other\n User no\nMatch originalhost titan exec "test %n = titan"\n User ada\n'
    )
    text = f"Include {tmp_path}/mor*\nMatch host nowhere\n Port 1\nMatch all\n Port 9\n"
    got = merged(tmp_path, text, HostEntry("titan"))
    assert (got.user, got.port) == ("ada", 9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host titan\n Port ssh\n", "config:2: port: expected a number from 1 to 65535"),
        (f"Host titan\n Port {'9' * 5000}\n", "config:2: port: expected a number from 1 to 65535"),
        ("\n\nPort\n", "config:3: expected `Keyword value`"),
        ("ConnectTimeout soon\n", "config:1: connecttimeout: expected a time such as 20 or 1m"),
        ('User "ada\n', "config:1: .* has a quote without its partner"),
        ("Match planet mars\n", "config:1: Match knows no 'planet'"),
        ("Match host\n", "config:1: Match host: expected a value"),
    ],
)
def test_a_broken_ssh_config_is_told_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        merged(tmp_path, text, HostEntry("titan"))


def test_a_word_that_checking_of_host_keys_does_not_know_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config:2: stricthostkeychecking: expected yes, ask, accept-new"):
        merged(tmp_path, "Host *\n  StrictHostKeyChecking maybe\n", HostEntry("titan"))


def test_a_match_command_that_hangs_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_parser, "_MATCH_EXEC_S", 0.05)
    with pytest.raises(
        HostError, match=r"^titan: .*config:1: Match exec has not ended within 0.05 s: 'sleep 9'"
    ):
        merged(tmp_path, 'Match exec "sleep 9"\n Port 2\n', HostEntry("titan"))


_KEYWORDS = "KnownHostsCommand /x %H\nBindAddress 192.0.2.9\nPKCS11Provider /y\nCanonicalizeHostname yes\n"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (_KEYWORDS, ConnectionRefused, "bindaddress ({0}:2)"),
        (_KEYWORDS, HostError, "bindaddress ({0}:2)"),  # no route to it
        (_KEYWORDS, HostKeyUnknown, "canonicalizehostname ({0}:4), knownhostscommand ({0}:1)"),
        (_KEYWORDS, AuthenticationFailed, "pkcs11provider ({0}:3)"),
        (_KEYWORDS, PythonNotFound, ""),
        ("AddressFamily any\n", ConnectionRefused, ""),
        ("CanonicalizeHostname no\nKnownHostsCommand none\n", HostKeyUnknown, ""),
    ],
)
def test_a_keyword_that_is_not_followed_is_named_where_it_bears_on_the_error(
    text: str, kind: type[HostError], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise kind("titan", "no", "try it")

    config = tmp_path / "config"
    config.write_text(text)
    monkeypatch.setattr(endpoint, "open_endpoint", refuse)
    with pytest.raises(kind) as caught:
        build_opener(Inventory(), OpenOptions(), config)(HostEntry("titan"))
    _, _, names = caught.value.fix.partition("try it; gpulaunch does not follow ")
    assert names == (f"{said.format(config)} of ssh_config" if said else "")


@pytest.mark.parametrize(
    ("lines", "entry", "said"),
    [
        ("Host titan\n Port abc\n", HostEntry("titan"), "port: expected a number from 1 to 65535, got 'abc'"),
        ("Host titan\n IdentityFile ${NOT_SET}/k\n", HostEntry("titan"), "the environment variable NOT_SET"),
        ("ProxyCommand\n", HostEntry("titan"), "expected `Keyword value`"),
        ("", HostEntry("titan", jump=("a b",)), '"a b" is not a host'),
    ],
)
def test_what_is_wrong_about_one_host_is_that_hosts_error(
    lines: str, entry: HostEntry, said: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(lines)
    with pytest.raises(HostError) as caught:
        build_opener(Inventory(), OpenOptions(), config)(entry)
    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert said in caught.value.detail
    assert caught.value.fix


def test_a_host_of_ssh_config_with_the_form_of_a_job_is_a_host(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f'Host 17\n HostName 127.0.0.1\n Port 1\nMatch exec "echo . >>{tmp_path}/asked"\n')
    with pytest.raises(HostError) as caught:
        build_opener(Inventory(), OpenOptions(), config)(HostEntry("17"))
    assert "Slurm" not in caught.value.fix
    assert (tmp_path / "asked").read_text() == ".\n"  # not once more for the words of the error


def test_an_include_of_itself_ends(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does it include itself"):
        merged(tmp_path, f"Include {tmp_path}/config\n", HostEntry("titan"))


def test_a_config_that_is_named_but_absent_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        build_endpoint(HostEntry("titan"), Inventory(), tmp_path / "absent")
