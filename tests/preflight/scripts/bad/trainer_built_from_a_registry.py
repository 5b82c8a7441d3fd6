# target: processes=4 capability=7.5
from accelerate import Accelerator
from mmcv.utils import Registry, build_from_cfg

TRAINERS = Registry("trainer")


@TRAINERS.register_module()
class Plain:
    def __init__(self, precision):
        self.accelerator = Accelerator(mixed_precision=precision)


@TRAINERS.register_module()
class Half:
    def __init__(self, precision):
        self.accelerator = Accelerator(mixed_precision=precision)  # expect: P131 error


trainer = build_from_cfg(dict(type="Half", precision="bf16"), TRAINERS)
