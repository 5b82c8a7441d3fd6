"""What keys beside a manifest's command set, or reserve in a cluster: directories, GPUs, secrets. Pure."""

import shlex
from collections.abc import Callable, Iterator, Sequence

from launcher.engines.command_line.manifests.counts import is_of_azure
from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.tables.side_programs import BEFORE
from preflight import regex as re

_VALUE = r"[ ]+(?P<value>[^#\s]+(?:[ \t]+[^#\s]+)*)[ \t]*(?:#.*)?"
_PLAIN = re.compile(
    r"[ ]*(?:- +)*(?P<key>(?:work(?:ing[_-]?)?)?[dD]ir|working[_-]?[dD]irectory"
    rf"|chdir|code|root_path|env_file):{_VALUE}"
)
_OTHERS = ("chdir", "code", "root_path", "env_file")
"""Of Ansible; of Azure ML, which sends the folder and starts in it; of Databricks; of Compose."""

_PREPARES = re.compile(r"(?P<indent>[ ]*)(?P<key>setup|before_script|init):(?:[ \t].*)?")
_DEFAULT_DIRECTORY = re.compile(
    rf"^[ ]*defaults:[ ]*\n[ ]+run:[ ]*\n(?:[ ]+shell:[^\n]*\n)?[ ]+working-directory:{_VALUE}$", re.MULTILINE
)
_DEVICES = re.compile(r"[ ]*device_ids:[ ]*\[(?P<value>[^\[\]]*)\][ ]*(?:#.*)?")
_CARDS = re.compile(
    r"[ ]*(?:- +)*(?P<key>[\"']?(?:nvidia|amd)\.com/gpu[\"']?|slots_per_trial|acceleratorCount"
    r"|num_accelerators|count)"
    r":[ ]+[\"']?(?P<value>\d{1,4}|all)[\"']?[ ]*(?:#.*)?"
)
_RESERVED = re.compile(r"[ ]*(?:- +)*capabilities:.*gpu.*|[ ]*- +driver:[ ]+nvidia.*")
"""What distinguishes the `count:` of GPUs that Compose reserves."""

_NAMED = re.compile(r"[ ]*(?:- +)?name:[ ]*[\"']?(?P<name>[A-Za-z_]\w*)[\"']?[ ]*(?:#.*)?")
_REFERENCE = re.compile(
    r"[ ]*(?:valueFrom:[ ]*\{[ ]*)?(?P<kind>secretKeyRef|configMapKeyRef|fieldRef|resourceFieldRef):.*"
)
_ALL_FROM = re.compile(r"[ ]*envFrom:.*|[ ]*env_file:[ ]*(?:#.*)?")
_WITHOUT_VALUE = re.compile(
    r"[ ]*(?:- +(?P<item>[A-Z_][A-Z0-9_]*)|(?P<name>[A-Z_][A-Z0-9_]*):(?:[ ]+(?:null|~|\"\"|''))?)"
    r"[ ]*(?:#.*)?"
)
_FILLED_IN = re.compile(r"\$?\{\{[^{}\n]{1,200}\}\}")  # in place of a value: `${{ secrets.KEY }}`

_WRITE_IT = "the manifest does not say its value: env: of a run config does"
_OF_CONTAINER = "of the container: the launch starts in the directory of each host (workdir:)"
_OF_PLAN = "the plan takes GPUs of each host"


def render_keys(lines: Sequence[str], beside: range, document: range, indent: int) -> Iterator[str]:
    """Yield lines of a shell for what keys say: `beside` a command at an indent, and in its document."""
    yield from _directory(lines, beside, document, indent)
    for at in beside:
        if (found := _DEVICES.fullmatch(lines[at])) is not None:
            ids = ",".join(part.strip(" \"'") for part in found["value"].split(",") if part.strip())
            yield f"export CUDA_VISIBLE_DEVICES={shlex.quote(ids)}\n"
    roots = (one["value"] for one in _plain(lines, document) if one["key"] == "root_path")
    yield from (_said(f"root_path {root}: {_OF_CONTAINER}") for root in roots)
    yield from _cards(lines, beside, document)
    yield from _unseen(lines, beside)
    prepared = (found for at in beside if (found := _PREPARES.fullmatch(lines[at])) is not None)
    yield from (_said(f"{found['key']}: {BEFORE}") for found in prepared if len(found["indent"]) == indent)


def set_variable(name: str, value: str, quoted: Callable[[str], str]) -> str:
    """Return a line of a shell for a variable; one whose value is filled in elsewhere is named alone."""
    filled = _FILLED_IN.search(value)
    if filled is not None or value == f"${{{name}}}":
        return _said(f"{name} ({value if filled is None else filled[0]}): {_WRITE_IT}")
    return f"export {name}={quoted(value)}\n"


def unset_variables(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines of a shell for variables to which the lines below `env:` give no value."""
    for line in lines:
        found = _WITHOUT_VALUE.fullmatch(line)
        if found is not None:
            yield _said(f"{found['item'] or found['name']}: {_WRITE_IT}")


def _said(sentence: str) -> str:
    return say_left_out(sentence) + "\n"


def _plain(lines: Sequence[str], where: range) -> Iterator[re.Match[str]]:
    """Yield directories and files that keys name in a word."""
    return (found for at in where if (found := _PLAIN.fullmatch(lines[at])) is not None)


def _directory(lines: Sequence[str], beside: range, document: range, indent: int) -> Iterator[str]:
    plain = list(_plain(lines, beside))
    own = [one for one in plain if one.start("key") == indent]
    named = [one for one in own if one["key"] not in _OTHERS]
    for changed in (one for one in plain if one["key"] == "chdir"):
        is_filled_in = "{" in changed["value"]
        said = f"chdir {changed['value']}: filled in elsewhere: workdir: of a run config names it"
        yield _said(said) if is_filled_in else f"cd {shlex.quote(changed['value'])}\n"
    if not named and is_of_azure(lines[at] for at in document):
        named = [one for one in own if one["key"] == "code"]
    default = _DEFAULT_DIRECTORY.search("\n".join(lines[at] for at in document))
    one = named[0] if named else default
    if one is None:
        return
    key, value = named[0]["key"] if named else "working-directory", one["value"].strip("\"'")
    if value.startswith(("/", "azureml:")) or "$" in value or "{" in value or "://" in value:
        yield _said(f"{key} {value}: {_OF_CONTAINER}")
    else:
        yield f"cd {value if value.startswith('~') else shlex.quote(value)}\n"


def _cards(lines: Sequence[str], beside: range, document: range) -> Iterator[str]:
    """Yield what is said of GPUs that a manifest reserves; `count` is of GPUs where Compose says so."""
    is_reserved = any(_RESERVED.fullmatch(lines[at]) for at in beside)
    for where in (beside, document):
        found = [one for at in where if (one := _CARDS.fullmatch(lines[at])) is not None]
        kept = [one for one in found if one["key"] != "count" or (is_reserved and where is beside)]
        said = dict.fromkeys(f"{one['key'].strip(chr(34) + chr(39))} {one['value']}" for one in kept)
        yield from (_said(f"{each}: {_OF_PLAN}") for each in said)
        if said:
            return


def _unseen(lines: Sequence[str], beside: range) -> Iterator[str]:
    """Yield what is said of variables that a secret, a map of the cluster or a file holds."""
    name = ""
    for at in beside:
        line = lines[at]
        if (named := _NAMED.fullmatch(line)) is not None:
            name = named["name"]
        elif (reference := _REFERENCE.fullmatch(line)) is not None:
            yield _said(f"{name} ({reference['kind']}): {_WRITE_IT}")
        elif (file := _PLAIN.fullmatch(line)) is not None and file["key"] == "env_file":
            yield _said(
                f"env_file {file['value']}: its variables are not read; env: of a run config sets them"
            )
        elif _ALL_FROM.fullmatch(line) is not None:
            key = line.partition(":")[0].strip(" -")
            yield _said(f"{key}: its variables are not read; env: of a run config sets them")
