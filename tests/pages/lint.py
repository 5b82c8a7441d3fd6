"""docs/lint.md: the rules of `gpulaunch lint`, made from their own docstrings."""

from preflight.script.rules.all_rules import list_rule_codes, rule_text

_INTRO = """\
<!-- Made by `python -m tests.pages`; edit the docstrings in preflight/script/rules/. -->
# gpulaunch lint

`gpulaunch lint SCRIPT` reads a training script, the modules of its own that it imports and the YAML, JSON,
TOML or INI files that it loads from beside itself. It never executes anything. Every preflight with a script
does so too, for the hosts, versions and arguments of that launch.

Without options the script is judged for GPUs before and from Ampere on, and for a launch of several processes
whose number is not known: what depends on either is at most a warning, or an info. `--processes N`,
`--capability X.Y`, `--precision`, `--args`, `--version PACKAGE=X.Y` and `-c CONFIG` say more; then what is
known to be wrong is an error. bf16 and flash_attention_2, which only GPUs before Ampere lack, are an info
until the GPUs are known. The exit code is 1 for errors, or when something was not judged.

A fault of placement is an error where every rank does it by default. Under a condition that is not known, in
the branch of a default (`without --ddp`) or in a function that the script names and never calls it is a
level lower, and the message says on what it depends; beside a branch that wraps the model for several ranks,
or where the script was not read to its end, it is an info.

The rules from R401 on judge what ranks do together: what each gets of the data, what all of them must call,
how the model is wrapped. A loader is judged where a loop that trains draws from it. What a script does to
divide the data in another way (slices, items, files and calls with the rank in them, shards, an
IterableDataset, and seeds by rank where no epoch ends) silences R401, and a collective in a branch of the
other ranks R404.

Where nothing trains of what the script is seen to call (a class is looked up by a name that is not known, a
file of classes has no program of its own), lint reads what may train besides: methods that the script calls
on unknown objects, in the classes that have them, modules whose names it puts together, and the training
functions and classes of its own file. What these get from elsewhere is not known. Such a finding is a warning
at most, ends with `where Trainer.train is used`, and gives way to one that the script reaches. D202 and D205
are an info then, and R406 is silent. The names of what was read so are printed, in JSON as `read_alone`.

Reading has bounds: 400,000 steps, 300,000 words and signs in all modules (400,000 with those that train),
values of 20,000 items, strings of 65,536 characters, integers of 4,096 bits. What lies beyond them is
reported as `not judged:`, in JSON (`--json`) under `problems`, in SARIF (`--sarif`) as a notification, and by
preflight as an unknown SCR001.

A fault that two lines make together (float16 weights in one, `fp16=True` in the other) is reported at the
line to change; the other is under `see:`, in `related`, and in JSON an info of its own with `part_of`.

Silence a rule on one line with `# gpulaunch: ignore[P101]`.

Measured in November 2026 on scripts that lint had not seen: it found 64 of 73 mistakes, with no wrong error
in 54 scripts without one, and wrong errors in two of 142 public scripts ([all measurements](judgement.md)).
On the unchanged examples of Hugging Face, with default arguments, the only errors are what stops them:
device_map="auto", a GPU by number or CUDA_VISIBLE_DEVICES in a launch of several processes, and bf16 on GPUs
before Ampere. Lint follows Lightning's Trainer and Fabric, but not LightningCLI, wrappers of unknown
libraries, and code built at run time.

`--fix` shows a diff of the script and of its own modules, says how many errors stay, and writes after a yes
(`--yes` in scripts). It names float32 at load or in the cast after it, renames `tokenizer` and
`evaluation_strategy`, drops `device_map`, and uses `accelerator.device` and `accelerator.backward(...)` where
an Accelerator is at hand. What needs a choice (a dtype that is computed, a function that does not have the
Accelerator) is left, with the reason. It needs LibCST beside gpulaunch
(`pip install libcst`).
"""


def render_page() -> str:
    """Return the page: an index and one section per rule."""
    rows = ["| code | what is wrong |", "|---|---|"]
    sections = []
    for code in list_rule_codes():
        title, _, rest = rule_text(code).partition("\n")
        rows.append(f"| [{code}](#{code.lower()}) | {title} |")
        body = rest.strip().replace("\nSource:", "\n\n*Source:*")
        if body.startswith("Source:"):
            body = f"*Source:*{body.removeprefix('Source:')}"
        sections.append(f"## {code}\n\n**{title}**\n\n{body}\n")
    return "\n".join([_INTRO, *rows, "", *sections])
