# target: processes=4 capability=7.5
from absl import app
from accelerate import Accelerator
from ml_collections import config_flags

_CONFIG = config_flags.DEFINE_config_file("config", "configs/base.py", "the run")


def main(argv):
    config = _CONFIG.value
    accelerator = Accelerator(mixed_precision=config.train.precision)  # expect: P131 error


if __name__ == "__main__":
    app.run(main)
