"""Hooks into transformers' Trainer: behind the rehearsal's last step it evaluates and saves as configured."""

import functools
from types import ModuleType
from typing import Any

from ..safe_call import SafeCaller
from .step_timer import StepTimer


class TrainerHooks:
    """Callbacks on a Trainer's events; the rehearsal of its script ends when it would start another step."""

    def __init__(self, steps: StepTimer) -> None:
        self.values: dict[str, Any] = {}  # settings of the run that a Trainer reports
        self._steps = steps

    def install(self, module: ModuleType, safety: SafeCaller) -> None:
        """Hook into transformers.trainer_callback."""
        handler: Any = module.CallbackHandler
        original = handler.call_event

        def call_event(owner: Any, event: str, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            result = original(owner, event, args, state, control, **kwargs)
            if safety.is_active():
                safety.call("follow the Trainer", self._event, event, args, state, result or control)
            return result

        handler.call_event = functools.update_wrapper(call_event, original)

    def _event(self, event: str, args: Any, state: Any, control: Any) -> None:
        steps = self._steps
        steps.trainer_ends_them = True
        if event == "on_train_begin":
            samples = args.per_device_train_batch_size * args.gradient_accumulation_steps
            self.values = {
                "total_steps": int(state.max_steps),
                "samples_per_step": int(samples * getattr(args, "world_size", 1)),
            }
        elif event == "on_evaluate":
            steps.record("evaluation")
        elif event == "on_save":
            steps.record("save")
        elif event == "on_step_begin" and steps.are_done():
            steps.end()
        elif event == "on_step_end" and steps.are_done():
            _evaluate_and_save(args, control)


def _evaluate_and_save(args: Any, control: Any) -> None:
    strategy = getattr(args, "eval_strategy", None) or getattr(args, "evaluation_strategy", "no")
    control.should_evaluate = control.should_evaluate or str(getattr(strategy, "value", strategy)) != "no"
    save = getattr(args, "save_strategy", "no")
    control.should_save = control.should_save or str(getattr(save, "value", save)) != "no"
