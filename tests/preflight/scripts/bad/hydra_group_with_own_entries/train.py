# target: processes=4 capability=7.5
import hydra
from accelerate import Accelerator


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    first = Accelerator(mixed_precision=cfg.train.precision)  # expect: P131 error
    other = Accelerator(mixed_precision=cfg.train.of_test)


if __name__ == "__main__":
    main()
