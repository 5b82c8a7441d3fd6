from preflight.diagnosis.lines import Line
from preflight.diagnosis.live_diagnosis import LiveDiagnosis
from preflight.diagnosis.series import PointReader

_STEP = "{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 1e-05, 'epoch': 0.1}}"


def _said(live: LiveDiagnosis, *steps: tuple[str, str], rank: int = 0) -> list[str]:
    said = [live.feed(_STEP.format(loss=loss, norm=norm), rank, "a") for loss, norm in steps]
    return [warning.code for warnings in said for warning in warnings]


def test_nan_losses_are_said_once_while_the_run_goes_on() -> None:
    live = LiveDiagnosis()
    assert _said(live, ("2.1", "1.0"), ("nan", "nan"), ("nan", "nan"), ("nan", "nan"), ("nan", "nan")) == [
        "S11"
    ]


def test_a_loss_of_zero_with_nan_norms_is_said() -> None:
    assert _said(LiveDiagnosis(), ("2.1", "1.0"), ("0.0", "nan"), ("0.0", "nan"))[:1] == ["S12"]


def test_one_nan_at_the_beginning_is_not_said() -> None:
    assert _said(LiveDiagnosis(), ("9.1", "nan"), ("8.1", "4.0"), ("7.1", "inf"), ("6.0", "3.0")) == []


def test_a_line_without_a_step_says_nothing_and_is_not_the_step_of_a_pace() -> None:
    live = LiveDiagnosis()
    for step in range(3):
        live.feed(f"step {step} loss: 2.{step}", 0, "a", at_s=step * 10.0)
    for minute in range(1, 7):
        assert live.feed("saving the checkpoint, nan values are kept", 0, "a", at_s=minute * 60.0) == ()
    assert [warning.text for warning in live.list_stalled(now_s=365.0)] == [
        "no step for 345 s; before, one came every 10.0 s"
    ]


def test_each_rank_is_judged_by_its_own_steps() -> None:
    live = LiveDiagnosis()
    assert _said(live, ("2.1", "1.0"), ("2.0", "1.0"), rank=0) == []
    assert _said(live, ("nan", "1.0"), ("nan", "1.0"), ("nan", "1.0"), rank=1) == ["S11"]


def test_a_rank_that_logs_no_more_steps_is_said_to_have_stalled() -> None:
    live = LiveDiagnosis()
    for step in range(5):
        live.feed(f"step {step} loss: 2.{step}", 0, "a", at_s=step * 10.0)
    assert live.list_stalled(now_s=100.0) == ()
    assert [warning.code for warning in live.list_stalled(now_s=400.0)] == ["S24"]
    assert live.list_stalled(now_s=500.0) == ()


def test_the_training_loss_is_read_and_no_other_number() -> None:
    read = {
        "iter 3: loss 2.5, val_loss nan": 2.5,
        "Loss_cls: 0.4, loss: 1.5": 1.5,
        "loss_scale: 65536": None,
        "lm loss: 4.1E+00 | loss scale: 1.0": 4.1,
        "train/loss=0.25 lr=1": 0.25,
        "eval_loss: nan": None,
        "packet loss: 0": None,
        "loss: tensor(1.25, device='cuda:0')": 1.25,
    }
    reader = PointReader()
    points = {text: reader.point_of(Line(1, text, None)) for text in read}
    assert {text: point.loss if point else None for text, point in points.items()} == read
