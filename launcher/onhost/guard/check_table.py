"""Table of the guard's checks before an optimizer step, in order: one row per check.

rank_guard.py passes other events - a loss, a norm, a scaler's update, the weights after a step - to the check
that handles them.
"""

from typing import Callable, Iterable, NamedTuple

from .checks.devices import emulated_bf16, wrong_devices
from .checks.dtypes import low_precision_parameters, mismatched_dtypes
from .checks.gradients import missing_gradients
from .checks.non_finite import FiniteMonitor
from .checks.peers import mismatched_peers
from .reporter import Violation
from .training_state import Step

FIRST_STEPS = 2


class GuardCheck(NamedTuple):
    """Check, and the steps before which it runs; one that is not `lasting` runs before the first two alone.

    `what` names the check in the report of its failure; checks of one name are disabled together.
    """

    when: Callable[[Step], bool]
    what: str
    look: Callable[[Step], Iterable[Violation]]
    lasting: bool = False


def list_checks(values: FiniteMonitor) -> tuple[GuardCheck, ...]:
    """Return the table."""
    return (
        GuardCheck(lambda step: step.training.fired == 1, "judge dtypes", mismatched_peers),  # G6, G7
        GuardCheck(_first_of_optimizer, "judge dtypes", low_precision_parameters),  # G1
        GuardCheck(_first_of_optimizer, "judge dtypes", wrong_devices),  # G6
        GuardCheck(_first_of_optimizer, "judge dtypes", emulated_bf16),  # G8
        GuardCheck(_first_of_optimizer, "look at the first weights", values.first_weights),  # G4
        GuardCheck(lambda _step: True, "compare dtypes", mismatched_dtypes, lasting=True),  # G2, G3
        GuardCheck(_first_two, "find parameters without gradient", missing_gradients),  # G9
        GuardCheck(values.wants_gradients, "look at gradients", values.gradients, lasting=True),  # G4
    )


def _first_of_optimizer(step: Step) -> bool:
    return step.watched.fired == 1


def _first_two(step: Step) -> bool:
    return step.watched.fired <= FIRST_STEPS and not step.has_closure
