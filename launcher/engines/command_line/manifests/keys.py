"""What keys beside a manifest's command set, or reserve in a cluster: directories, GPUs, secrets. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence

from launcher.engines.command_line.manifests.counts import is_of_azure
from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.tables.side_programs import BEFORE

_VALUE = r"[ ]+(?P<value>[^#\s]+(?:[ \t]+[^#\s]+)*)[ \t]*(?:#.*)?"
_DIRECTORY = re.compile(
    rf"(?:[ ]*(?:- +)*)(?P<key>(?:work(?:ing[_-]?)?)?[dD]ir|working[_-]?[dD]irectory):{_VALUE}"
)
_CHANGED = re.compile(rf"[ ]*chdir:{_VALUE}")
"""Of Ansible, beside the command or in its `args:`."""

_CODE = re.compile(rf"[ ]*(?:- +)*(?P<key>code):{_VALUE}")
"""Of Azure ML: the folder that is sent, in which the command starts."""

_ROOT = re.compile(rf"[ ]+root_path:{_VALUE}")
"""Of Databricks: the folder that is sent."""

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
_FILE = re.compile(rf"[ ]*env_file:{_VALUE}")
_ALL_FROM = re.compile(r"[ ]*envFrom:.*|[ ]*env_file:[ ]*(?:#.*)?")
_WITHOUT_VALUE = re.compile(
    r"[ ]*(?:- +(?P<item>[A-Z_][A-Z0-9_]*)|(?P<name>[A-Z_][A-Z0-9_]*):(?:[ ]+(?:null|~|\"\"|''))?)"
    r"[ ]*(?:#.*)?"
)
_FILLED_IN = re.compile(r"\$?\{\{[^{}\n]{1,200}\}\}")
"""What a workflow or a chart has in place of a value: `${{ secrets.KEY }}`."""

_WRITE_IT = "the manifest does not say its value: env: of a run config does"
_OF_CONTAINER = "of the container: the launch starts in the directory of each host (workdir:)"
_OF_PLAN = "the plan takes GPUs of each host"


def texts_of_keys(lines: Sequence[str], beside: range, document: range, indent: int) -> Iterator[str]:
    """Yield lines of a shell for what keys say: `beside` a command at an indent, and in its document."""
    yield from _directory(lines, beside, document, indent)
    for at in beside:
        if (found := _DEVICES.fullmatch(lines[at])) is not None:
            ids = ",".join(part.strip(" \"'") for part in found["value"].split(",") if part.strip())
            yield f"export CUDA_VISIBLE_DEVICES={shlex.quote(ids)}\n"
    if (root := next((found for at in document if (found := _ROOT.fullmatch(lines[at]))), None)) is not None:
        yield _said(f"root_path {root['value']}: {_OF_CONTAINER}")
    yield from _cards(lines, beside, document)
    yield from _unseen(lines, beside)
    prepared = (found for at in beside if (found := _PREPARES.fullmatch(lines[at])) is not None)
    yield from (_said(f"{found['key']}: {BEFORE}") for found in prepared if len(found["indent"]) == indent)


def set_variable(name: str, value: str) -> str:
    """Return a line of a shell for a variable; one whose value is filled in elsewhere is named alone."""
    filled = _FILLED_IN.search(value)
    if filled is not None:
        return _said(f"{name} ({filled[0]}): {_WRITE_IT}")
    return f"export {name}={shlex.quote(value)}\n"


def unset_variables(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines of a shell for variables to which the lines below `env:` give no value."""
    for line in lines:
        found = _WITHOUT_VALUE.fullmatch(line)
        if found is not None:
            yield _said(f"{found['item'] or found['name']}: {_WRITE_IT}")


def _said(sentence: str) -> str:
    return say_left_out(sentence) + "\n"


def _directory(lines: Sequence[str], beside: range, document: range, indent: int) -> Iterator[str]:
    found = (_DIRECTORY.fullmatch(lines[at]) for at in beside)
    named = [each for each in found if each is not None and each.start("key") == indent]
    for changed in filter(None, (_CHANGED.fullmatch(lines[at]) for at in beside)):
        is_filled_in = "{" in changed["value"]
        said = f"chdir {changed['value']}: filled in elsewhere: workdir: of a run config names it"
        yield _said(said) if is_filled_in else f"cd {shlex.quote(changed['value'])}\n"
    if not named and is_of_azure(lines[at] for at in document):
        codes = (_CODE.fullmatch(lines[at]) for at in beside)
        named = [each for each in codes if each is not None and each.start("key") == indent]
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
        elif (file := _FILE.fullmatch(line)) is not None:
            yield _said(
                f"env_file {file['value']}: its variables are not read; env: of a run config sets them"
            )
        elif _ALL_FROM.fullmatch(line) is not None:
            key = line.partition(":")[0].strip(" -")
            yield _said(f"{key}: its variables are not read; env: of a run config sets them")
