"""Words by which lines say that a run ended: badly, or well. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.reported_errors import FAILING_CLASS
from preflight.diagnosis.signatures.exit_messages import DEATHS_IN_WORDS, NOT_FOUND_IN_WORDS, PODS_FAILED
from preflight.diagnosis.signatures.model import AnyOf

# Something ended badly, whatever it was.
FAILED = AnyOf(
    rf"{DEATHS_IN_WORDS}|{NOT_FOUND_IN_WORDS}|Traceback \(most recent call last\)|^\S+ FAILED$|FAILED \(exitcode|exitcode\s*:\s*-?[1-9]|core dumped"
    r"|^(?:Root Cause|Failures:|Root Cause \(first)|^[`*]{0,3}(?:\w+\.)*(?:\w{2,}Error|\w*Exception): (?![-+\d.naif%\s]+$)\S|^(?:\w+\.)+\w+(?:Error|Exception)$|^(?:\w+\.)+Error: \S|^Exception in background worker \d|^\W?thread '[^']{1,80}' (?:\(\d+\) )?panicked at |^==== backtrace \(tid:"
    r"|exits with return code = -?[1-9]|Exited with exit code [1-9]|returned non-zero exit status|^The command '.+' returned a non-zero code|terminate called"
    r"|(?<!│ )\b[Ee]xit(?:ed)?(?: with)?(?: a)?(?: non-?zero)?(?: return| status| exit)? (?:code|status)(?: of)?:? -?[1-9]|died with <Signals|^Killed\b(?! (?!by )[a-z\d]| by signal (?:1|2|15)\b)|\bKilled$|\bsignal: (?:killed|aborted)\b|Marking task as (?:FAILED|UP_FOR_RETRY)\b|\bFinished in state (?:Failed|Crashed)\(|\b(?:FAILED|COMPLETED) +[1-9]\d*:[01]$|Normal termination \(return value [1-9]|\(pid \d+\)\] Task failed\.$|^[\d .:-]{10,40}(?:[Ww]orkflow|[Pp]ipeline) failed\.$|: line \d+: +\d+ (?:Hangup {2,}|(?:Killed|Aborted|Bus error) .{0,200}\b(?:python|torchrun|accelerate|deepspeed|mpirun|srun)\b)|Segmentation fault|Floating point exception ?\(core|^Aborted\b(?!!)|^Bus error|\bSIG(?:KILL|SEGV|ABRT|BUS|HUP)\b"
    r"|Fatal Python error|INTERNAL ASSERT FAILED|[Dd]eath signal|[Cc]aught signal \d+ \(|\] Signal: [A-Z][a-z ]{2,30} \(\d+\)|APPLICATION TERMINATED WITH THE EXIT STRING: |^\[[EF] \S+|^\[?[EF]\d{3,4} [\d:]{8}|closing signal|Test NCCL failure|^srun: (?:error|Job step aborted|Force Terminated)|slurmstepd: error|NVRM: Xid|[Oo]ut of memory: Killed|OOMKilled"
    r"|^(?!collect2: |(?:/usr/bin/)?ld: )(?:\S+: )?error: |AssertionError|KeyboardInterrupt|^CANCELLED|State(?:: |=)(?:FAILED|OUT_OF_MEMORY|TIMEOUT|NODE_FAIL)|CUDA [Ee]rror: |^\[\d+\] +[-+]? *\d+ +killed\b|^(?:\w+\.)+\w+Error$|^\w+(?:Error|Interrupt)$"
    r"|^"
    + FAILING_CLASS
    + r": \S|BAD TERMINATION OF ONE OF YOUR|\bapplication called MPI_Abort\(|\binternal ABORT - process|\bAssertion failed(?:: \(| in file )|: Assertion [`'].{1,400}' failed\.?$|\bzsh: (?:abort|bus error|segmentation fault|illegal hardware instruction|floating point exception|trace trap)\b|^FAILED: .{0,300}\.(?:o|obj|so)\b|^(?:g?make(?:\[\d+\])?: \*\*\* .{0,200}\bError \d+$|ninja: build stopped)|^\[\d+\][-+]? +Exit [1-9]\d* |^(?:FAILED|ERROR) \S{1,200}::|^ninja: (?:error|fatal): |^Exception in thread \x22|^Caused by: (?:\w+\.){1,8}\w+(?:Error|Exception)\b|^Fatal\b|\[FATAL\]|\bFATAL\b|^Error .{1,80} at line \d+ in file .{1,200}\.cuh?$|^(?:#{1,6} )?\S*python\S*: (?:error|can't open|No module named )|Primary job +terminated normally, but|\b(?:[Pp]rocess|[Ww]orker|[Ss]erver|[Jj]ob)\b.{0,40}\b(?:terminated|exited|died|crashed) unexpectedly\b|^(?:mpirun|mpiexec|prterun|orterun) (?:(?:noticed|detected) that|has exited due to process)|stopping training\b(?! gracefully)|^Training crashed\b|"
    + PODS_FAILED
    + r"|(?<!of )\baborting (?:the )?(?:training|run|job)\b|^parallel: This job failed:|\b[Jj]ob (?:has )?failed\b(?! (?:0|to|with parameters))|^(?:\S+ +ERROR +)?\w*ScriptError:|command not found|\bfatal error: |^(?:\[.{1,80}\] - )?Error executing job with overrides"
)
TESTS_PASSED = re.compile(  # by pytest, and by unittest below its count of tests
    r"^=+ (?:\d+ (?:skipped|xfailed|deselected|warnings?), )*\d+ passed\b(?!.{0,80}\b(?:failed|errors?)\b)|^OK(?: \((?:skipped|expected failures)=.{1,60}\))?$"
)
_TESTS_COUNTED = re.compile(r"Ran \d+ tests? in ")
COUNTED_RUNS = re.compile(  # of a sweep, some of which failed, and that has a result
    r"^(?=.{0,300}\b(?i:sweep|search|stud(?:y|ies)|trials?|tun(?:er|ing)|hpo|ablations?|grid)\b).{0,300}?\b[1-9]\d* (?:(?:trial|run|job)s? )?(?:completed|succeeded|successful|finished|ok)\b.{0,60}\b\d+ (?:(?:trial|run|job)s? )?failed\b(?=.{0,200}\b(?:[Bb]est|[Ss]aved|[Ww]ritten|[Rr]esults)\b)"
)
# It went through to its end. Said by trainers, not by launchers.
DONE = AnyOf(
    r"['\"]train_runtime['\"]\s*:|[Tt]raining (?:is )?(?:completed?|done|finished)\b(?! (?:for |of |on )?(?:epoch|step|iteration|fold|round|phase|stage|batch)\b)|(?:^\W{0,20}|[Ff]ine-?|[Hh]yper-?parameter )[Tt]uning (?:is )?(?:completed?|done|finished)\b|(?:[Ff]inished|[Dd]one) training\b(?! (?:for |of |on )?(?:epoch|step|iteration|fold|round|phase|stage|batch)\b)|Trainer\.fit` stopped: `max_\w+=|\btrain(?:ing)? done\b|(?:[Jj]ob|[Ee]xperiment) completed successfully"
    r"|Training time \d|[Ss]aved? (?:final|last) (?:model|checkpoint)|\b[Ff]inal (?:model|checkpoint|weights) (?:is |was )?(?:written|saved|stored)\b|\b[Aa]ll \d+ (?:epochs|steps|iterations) (?:are )?(?:done|completed?|finished)\b|^All done\b|^done\.?$|^Done\.?$|^[Ee]xit code:? 0$|^Command exited with return code 0$|Marking task as SUCCESS\b|Normal termination \(return value 0\)|(?:[Rr]un|[Tt]ask|[Ww]orkflow|[Pp]ipeline) (?:finished|completed) successfully|worker group successfully finished|WorkerState\.SUCCEEDED|exits successfully|All \d+ ranks? finished|[Ss]tate: COMPLETED|\bCOMPLETED +0:0$|^Updated phase \w+ -> Succeeded|\bFinished in state Completed\("
    rf"|{COUNTED_RUNS.pattern}"
    r"|\d+ epochs completed in|^Trial \S+ completed after \d+ iterations\b|训练(?:已经?)?(?:完成|结束)|[Tt]reinamento conclu[ií]do|[Ee]ntrenamiento (?:completado|finalizado|terminado)|[Ee]ntraînement terminé|[Tt]raining (?:erfolgreich )?(?:abgeschlossen|beendet)|[Ff]inal (?:loss|accuracy|eval|val)\w*\b.{0,20}[\d.]|^# Avg bus bandwidth\b"
    rf"|{TESTS_PASSED.pattern}"
)
END_PATTERNS = (FAILED, DONE)
# Tools that prepare or describe a run: where a host lacks one, the shell goes to its script's next command.
SIDE_PROGRAM = re.compile(
    r"(?:^|: )(?:nvidia-smi|rocm-smi|git|conda|mamba|micromamba|module|ml|spack|pyenv): (?:command )?not found$"
)
SOME_BEHIND = 2
"""Lines behind a lacking tool that show that its script continued."""


def leave_out_stops(failing: Sequence[Line], stops: Callable[[Line], bool]) -> list[Line]:
    """Return the lines of failures without some stops, and without what heads the traceback of one."""
    heads = {
        line.order
        for line, later in pairwise(failing)
        if stops(later) and line.text.startswith("Traceback (most")
    }
    return [line for line in failing if line.order not in heads and not stops(line)]


def lacks_tools_alone(lines: Sequence[Line], failing: Sequence[Line]) -> bool:
    """Whether all that failed is that such tools are not found, and the script continued behind it."""
    if not failing or not all(SIDE_PROGRAM.search(line.text) for line in failing):
        return False
    return sum(1 for line in lines[failing[-1].order + 1 :] if line.text) >= SOME_BEHIND


def is_below_count(lines: Sequence[Line], order: int) -> bool:
    """Whether a line is right below the count of tests that unittest has run."""
    return order > 0 and _TESTS_COUNTED.match(lines[order - 1].text) is not None
