"""What is wrong in a hosts.yaml is told with file, line, key, what was expected, and all at once."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher import cli
from launcher.config.inventory_reader import load_inventory
from launcher.errors import ConfigError
from launcher.exit_codes import ExitCode

CASES: dict[str, tuple[bytes, str]] = {
    "unknown key": (
        b"hosts:\n  a:\n    prot: 1\n",
        'hosts.yaml:3: hosts.a.prot: unknown key; did you mean "port"?',
    ),
    "word of Ansible": (
        b"hosts: {a: {ansible_python_interpreter: /v/bin/python}}\n",
        'hosts.a.ansible_python_interpreter: unknown key; did you mean "python"?',
    ),
    "word in capitals": (b"hosts: {a: {PORT: 1}}\n", 'hosts.a.PORT: unknown key; did you mean "port"?'),
    "word of ssh": (b"hosts: {a: {HostName: b}}\n", 'hosts.a.HostName: unknown key; did you mean "address"?'),
    "no blank": (b"hosts:\n  a:\n    user:ada\n", '(write "user: ada", with a blank), got "user:ada"'),
    "unknown section": (b"host: {}\n", 'hosts.yaml:1: host: unknown key; did you mean "hosts"?'),
    "no near spelling": (
        b"zzz: {}\n",
        "zzz: unknown key; expected one of defaults, hosts, groups; a host is written below hosts:",
    ),
    "wrong type": (
        b"hosts: {a: {port: ssh}}\n",
        'hosts.yaml:1: hosts.a.port: expected a whole number from 1 to 65535, got "ssh"',
    ),
    "port too large": (b"hosts: {a: {port: 65536}}\n", "from 1 to 65535"),
    "list for text": (b"hosts: {a: {user: [x]}}\n", "hosts.a.user: expected a user name, got a list"),
    "login for mapping": (
        b"hosts: {a: ada@10.0.0.1:41022}\n",
        '(write {address: 10.0.0.1, user: ada, port: 41022}), got "ada@10.0.0.1:41022"',
    ),
    "path for mapping": (b"hosts: {a: /data/x}\n", 'expected a mapping (key: value), got "/data/x"'),
    "range for mapping": (
        b"hosts:\n  a: l40s-[01-02]\n",
        'expected a mapping (key: value), got "l40s-[01-02]"',
    ),
    "address for mapping": (b"hosts: {a: 192.0.2.7}\n", "(write {address: 192.0.2.7})"),
    "address for defaults": (b"defaults: 192.0.2.7\n", 'a host goes below hosts:, got "192.0.2.7"'),
    "text for mapping": (
        b"hosts: {a: yes}\n",
        'hosts.a: expected a mapping (key: value) (write {} for its defaults), got "yes"',
    ),
    "keys as far to the left as their host": (
        b"hosts:\n  a:\n  address: 192.0.2.7\n  port: 22\n",
        'hosts.yaml:3: hosts.address: is a key of "a": indent it further than that line',
    ),
    "hosts as list": (
        b"hosts:\n- a\n- b\n",
        'each value a mapping (key: value) (write "a:" in place of "- a"), got a list',
    ),
    "empty value": (
        b"hosts: {a: {port: }}\n",
        "hosts.a.port: expected a whole number from 1 to 65535, got nothing",
    ),
    "driver with a plus": (
        b"hosts:\n  a: {expect: {driver: 570+}}\n",
        'hosts.yaml:2: hosts.a.expect.driver: expected a version specifier such as >=570 (write ">=570")',
    ),
    "driver as a number": (b"hosts: {a: {expect: {driver: 570}}}\n", '(write "==570.*"), got "570"'),
    "driver as a branch": (b"hosts: {a: {expect: {driver: R570}}}\n", 'write it like ">=570"'),
    "driver with an empty clause": (b"hosts: {a: {expect: {driver: '>=570,'}}}\n", "a version specifier"),
    "driver of the defaults": (
        b"defaults: {expect: {driver: '>570.*'}}\n",
        "defaults.expect.driver: expected",
    ),
    "range without quotes": (
        b"hosts: {a: }\ngroups: {ada: [node-[01-02]]}\n",
        'hosts.yaml:2: not valid YAML: a range needs quotes: "node-[01-02]"',
    ),
    "pattern without quotes": (b"groups: {a: [*.ckpt, b]}\n", 'a pattern needs quotes: "*.ckpt"'),
    "pattern without quotes in a list": (b"groups:\n  a:\n  - *\n", 'a pattern needs quotes: "*"'),
    "alias without its anchor": (
        b"groups: {a: *hots}\n",
        'quotes: "*hots", an alias its anchor above: &hots',
    ),
    "range without quotes in braces": (
        b"hosts:\n  n[1-2]: {user: a, address: 10.0.0.[1-2]}\n",
        'hosts.yaml:2: not valid YAML: a range needs quotes: "10.0.0.[1-2]"',
    ),
    "range without quotes as a key": (b"hosts: {node-[01-02]: }\n", 'a range needs quotes: "node-[01-02]"'),
    "user and port in the address": (
        b"hosts: {a: {address: 'root@10.0.0.7:2222'}}\n",
        "expected a name or IP address alone (write address: 10.0.0.7, user: root, port: 2222), got",
    ),
    "port in the address": (b"hosts: {a: {address: '[::1]:22'}}\n", "(write address: ::1, port: 22), got"),
    "environment as python": (
        b"hosts: {a: {python: ~/venv}}\n",
        "hosts.a.python: expected the path of an interpreter, not a directory (write ~/venv/bin/python), got",
    ),
    "activation as python": (
        b"hosts: {a: {python: ~/venv/bin/activate.fish}}\n",
        "the path of an interpreter, not what activates one (write ~/venv/bin/python), got",
    ),
    "conda environment as python": (
        b"hosts: {a: {python: ~/miniconda3/envs/train/}}\n",
        "(write ~/miniconda3/envs/train/bin/python), got",
    ),
    "bin as python": (b"hosts: {a: {python: /opt/venv/bin}}\n", "(write /opt/venv/bin/python), got"),
    "conda command as python": (
        b"hosts: {a: {python: conda run -n train python}}\n",
        "not a command (conda run -n train which python prints it on the host), got",
    ),
    "command as python": (b"hosts: {a: {python: source venv/bin/activate}}\n", "not a command (in that env"),
    "program of the repository as python here": (
        b"hosts:\n  localhost:\n    python: ./python\n",
        "hosts.yaml:3: hosts.localhost.python: expected an absolute path or ~/... on this machine",
    ),
    "the same by the defaults": (
        b"defaults: {python: venv/bin/python}\nhosts: {localhost: , a: }\n",
        "hosts.localhost.python: expected an absolute path or ~/... on this machine",
    ),
    "option of python": (
        b"defaults: {python: python3 -u}\n",
        "defaults.python: expected the path of an inter",
    ),
    "key of a run config": (
        b"hosts: {a: {script: train.py}}\n",
        "hosts.a.script: unknown key; it is a key of a run config",
    ),
    "key of a host at the top": (b"user: ada\n", "user: unknown key; it is a key of a host in hosts.yaml"),
    "key of expect": (b"hosts: {a: {nofile: 5}}\n", "it is a key under expect: of a host in hosts.yaml"),
    "gpu twice": (b"hosts: {a: {gpus: [0, 0]}}\n", "each once"),
    "gpu name": (b"hosts: {a: {gpus: [zero]}}\n", "a list of GPU indices or UUIDs"),
    "no gpus": (b"hosts: {a: {gpus: []}}\n", "a list of GPU indices or UUIDs"),
    "env name": (
        b"hosts: {a: {env: {A-B: 1}}}\n",
        "hosts.a.env.A-B: expected an environment variable's name",
    ),
    "env list": (b"hosts: {a: {env: {A: [1]}}}\n", "hosts.a.env.A: expected text or a number, got a list"),
    "same key twice": (
        b"hosts:\n  a:\n  b:\n  a:\n",
        "hosts.yaml:4: hosts.a: written twice (first on line 2)",
    ),
    "overlapping ranges": (
        b"hosts:\n  a[1-3]:\n  a[3-4]:\n",
        "hosts.yaml:3: hosts.a[3-4]: a3 is in a[1-3] too",
    ),
    "malformed range": (b"hosts: {'a[1-': }\n", 'hosts.a[1-: "a[1-" is not a range of hosts'),
    "range downwards": (
        b"hosts: {'a[4-1]': }\n",
        '"a[4-1]" is not a range of hosts: "4-1" goes from high to low',
    ),
    "endless range": (b"hosts: {'a[1-99999999]': }\n", "means more than 10000 hosts"),
    "one address for many": (b"hosts: {'a[1-2]': {address: x}}\n", "one address for 2 hosts"),
    "addresses of another count": (b"hosts: {'a[1-2]': {address: 'x[1-3]'}}\n", "3 addresses for 2 hosts"),
    "reserved name": (b"hosts: {all: }\n", '"all" cannot be a host\'s name'),
    "option as name": (b"hosts: {-oX: }\n", "expected a host name"),
    "variable in a path": (b"hosts: {a: {workdir: $HOME/x}}\n", "no shell replaces $HOME in it (write ~/x)"),
    "quotes of a page around a path": (
        "hosts: {a: {python: \u2018/v/bin/python\u2019}}\n".encode(),
        "left single quotation mark",
    ),
    "variable before python": (
        b"hosts: {a: {python: '${V}/bin/python'}}\n",
        "replaces ${V} in it (write it out)",
    ),
    "password": (b"hosts: {a: {password: x}}\n", "no file of gpulaunch holds a password"),
    "port in the name": (b"hosts:\n  a:2222:\n", '(write "a: {port: 2222}")'),
    "user in the name": (b"hosts:\n  ada@a:22:\n", '(write "a: {user: ada, port: 22}")'),
    "hosts in a line": (b"hosts: a,b\n", '(write "a:" in a line of its own below)'),
    "group of strangers": (
        b"hosts: {titan: }\ngroups: {g: [titn]}\n",
        '"titn" is not under hosts; did you mean "titan"?',
    ),
    "group of other strangers": (
        b"groups: {g: [titan]}\n",
        '"titan" is not under hosts; list it under hosts',
    ),
    "group of strangers that are called like it": (
        b"hosts: {titan: }\ngroups: {l40s: ['l40s-[01-02]']}\n",
        '"l40s-02" is not under hosts; list it under hosts',
    ),
    "list without brackets in braces": (
        b"hosts: {a: {gpus: 0,1,3, port: 22}}\n",
        "unknown key (write gpus: [0, 1, 3]: in braces a comma ends a value)",
    ),
    "group in itself": (b"groups:\n  g: ['@h']\n  h: [g]\n", "contains itself: g -> h -> g"),
    "group named as a host": (b"hosts: {g: }\ngroups: {g: [g]}\n", "groups.g: is a host's name too"),
    "tab": (b"hosts:\n\ta: {}\n", "hosts.yaml:2: found a tab, expected spaces"),
    "unclosed": (b"hosts: {a: {port: 1}\n", "hosts.yaml:2: not valid YAML"),
    "unclosed, seen at the end": (b"\nhosts: {a: 1\n\n", 'the "{" of line 2 is not closed'),
    "unclosed list": (b"groups:\n  g: [a\n", 'the "[" of line 2 is not closed'),
    "colon in value": (b"hosts:\n  a: b: c\n", 'hosts.yaml:2: not valid YAML: a value with ": " in it needs'),
    "no colon": (
        b"hosts:\n  a:\n    user\n    port: 1\n",
        "hosts.yaml:4: not valid YAML: a line above lacks",
    ),
    "no colon, last key": (b"hosts:\n  a:\ndefaults\ngroups: {}\n", 'line 3 lacks the ":" after its key'),
    "indentation": (
        b"hosts:\n  a:\n    user: x\n   port: 1\n",
        "hosts.yaml:4: not valid YAML: its indentation",
    ),
    "list beside keys": (b"hosts:\n  a: {}\n  - b\n", "a list and keys side by side"),
    "no blank behind a colon": (b"hosts:a\nb: c\n", 'a line above lacks ": " after its key'),
    "words of a mistake": (b"hosts: an escape character: b\n", 'a value with ": " in it needs quotes'),
    "open bracket": (b"hosts: [", "its last bracket is not closed"),
    "comma alone": (b"hosts: {,}\n", "a value is missing before ,"),
    "text behind quotes": (b'hosts: "a" b\n', "text behind a closing quote"),
    "sign": (b"hosts: {a: {user: @x}}\n", "a value that starts with @ needs quotes"),
    "open quote": (b"hosts:\n  a: {user: 'x}\n", "the quote that line 2 opens is not closed"),
    "backslash": (b'hosts: {a: {workdir: "C:\\Users"}}\n', "a backslash in double quotes"),
    "anchor twice": (
        b"a: &x 1\nb: &x 2\n",
        "hosts.yaml:2: not valid YAML: second occurrence (found duplicate",
    ),
    "list at the top": (b"- a\n", "hosts.yaml:1: expected a mapping (key: value) at the top, got a list"),
    "text at the top": (b"titan\n", "expected a mapping (key: value) at the top"),
    "hosts in a list": (b"hosts:\n  - titan: {port: 2}\n", 'write "titan:" in place of "- titan")'),
    "hosts by name in a list": (
        b"hosts:\n  - name: titan\n    ip: 192.0.2.1\n",
        '(write "titan:" in place of "- name: titan")',
    ),
    "no-break space": (
        "hosts:\n  a:\n\u00a0\u00a0\u00a0\u00a0user: b\n".encode(),
        "not ASCII in it: no-break space",
    ),
    "typographic quote": (
        "hosts: {a: {user: \u201cb\u201d}}\n".encode(),
        "in it: left double quotation mark",
    ),
    "colon of another script": ("hosts:\n  a\uff1a\n    user: b\n".encode(), "in it: fullwidth colon"),
    "two documents": (b"hosts: {}\n---\nhosts: {}\n", "a second document starts"),
    "binary": (b"hosts:\n\x00\x01", "hosts.yaml:2: holds binary data"),
    "utf-16": ("hosts: {}".encode("utf-16"), "encoded as UTF-16, expected UTF-8"),
    "latin-1": (b"hosts:\n  # caf\xe9\n", "hosts.yaml:2: byte 0xe9 is not UTF-8"),
    "control character": (b"hosts:\n  a: {user: \x07}\n", "hosts.yaml:2: YAML takes no control character"),
    "python object": (b"hosts: !!python/object/apply:os.getcwd []\n", "the tag"),
    "alias of itself": (b"hosts: &a\n  x: *a\n", "an alias refers to itself"),
    "billion laughs": (
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 10)) for c in range(98, 106)),
        "its aliases expand to more than 100000 values",
    ),
    "too deep": (b"hosts: " + b"[" * 5000, "nested too deep"),
    "too large": (b"#" * (2 << 20), "larger than 1 MiB"),
    "sequence as key": (b"hosts: {[a]: }\n", "a key must be plain text"),
    "merge of text": (b"hosts:\n  a: {<<: x}\n", "<<: expected a mapping"),
}


def complaint(folder: Path, data: bytes) -> str:
    path = folder / "hosts.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_inventory(path)
    return caught.value.message


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    data, expected = CASES[name]
    assert expected in complaint(tmp_path, data)


@pytest.mark.parametrize("text", ["- titan\n- l40s\n", "- name: titan\n  port: 22\n", "titan\n"])
def test_what_is_no_mapping_is_told_with_how_to_begin(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_inventory(path)
    begin = re.findall("`(.*?)`", caught.value.fix)
    path.write_text(f"{begin[0]}\n  {begin[1].replace('NAME', 'titan')}\n")
    assert set(load_inventory(path).hosts) == {"titan"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a slots=2  # two\n\nb:4\n", "gpulaunch init --hosts a,b writes one"),
        ("[gpus]\na ansible_host=192.0.2.1\nb\n", "gpulaunch init --hosts a,b writes one"),
        ("[g]\na\nb\n[g:vars]\nansible_user=x\nansible_port=2\n", "gpulaunch init --hosts a,b writes one"),
        ("all: {hosts: {a: }, children: {g: {hosts: {b: {ansible_port: 2}}}}}\n", "--hosts a,b writes one;"),
        ("hosts: [a,\n  b\n", ""),
        ("192.0.2.1 a a.lan\n192.0.2.2 b\n", "gpulaunch init --hosts a,b writes one"),
        ("Host a\n  HostName 192.0.2.1\n", "leave -i out"),
        ("hosts:\n\ta: 1\n", ""),
        ("".join(f"n{number}\n" for number in range(20)), "--hosts n0,n1,n2,n3,n4,n5,n6,n7,... writes one"),
    ],
)
def test_a_list_of_hosts_of_another_tool_is_told_with_what_takes_it(
    tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_inventory(path)
    assert caught.value.fix.endswith(expected) if not expected else expected in caught.value.fix


def test_all_mistakes_are_told_at_once_in_the_files_order(tmp_path: Path) -> None:
    message = complaint(
        tmp_path, b"defaults: {usr: x}\nhosts:\n  a: {port: -1}\n  b: {gpus: few}\ngroups: {g: [c]}\n"
    )
    lines = message.splitlines()
    assert lines[0] == "4 mistakes:"
    assert [line.split(":")[1] for line in lines[1:]] == ["1", "3", "4", "5"]


def test_merge_keys_and_anchors_work(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts:\n  a: &a {user: ada, port: 22}\n  b: {<<: *a, port: 23}\n")
    host = load_inventory(path).hosts["b"]
    assert (host.user, host.port) == ("ada", 23)


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "\ufeffhosts: {a: }\n", "hosts:\r\n  a:\r\n    port: 22\r\n"]
)
def test_harmless_forms_load(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_bytes(text.encode())
    assert set(load_inventory(path).hosts) <= {"a"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=60)
    | st.text(alphabet="hosts:{}[]&*!|>-?,#'\"\t\n ag1@%`<", max_size=40).map(lambda text: text.encode())
)
def test_no_bytes_at_all_end_in_anything_but_one_clear_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_bytes(data)
    try:
        load_inventory(path)
    except ConfigError as error:
        assert "hosts.yaml" in error.message  # noqa: PT017 - most inputs raise, some are valid


@pytest.mark.parametrize(
    "python",
    [
        "make",
        "/usr/bin/make",
        "/proc/self/cwd/python",
        "//proc/self/cwd/python",
        "/dev/fd/../cwd/python",
        "~/../../../../../proc/self/cwd/python",
        "./python",
    ],
)
def test_a_python_of_localhost_that_could_run_a_repository_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], python: str
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ntouch RAN\n")
    program.chmod(0o755)
    (tmp_path / "Makefile").write_text("all:\n\ttouch RAN\n")  # make takes the bootstrap for a variable
    (tmp_path / "hosts.yaml").write_text(f"hosts: {{localhost: {{python: {python}}}}}\n")
    assert cli.run_command_line(("preflight", "localhost")) == ExitCode.USAGE
    assert "hosts.localhost.python: expected a" in capfd.readouterr().err
    assert not (tmp_path / "RAN").exists()
