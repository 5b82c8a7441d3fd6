# target: processes=4 capability=7.5
import configparser
from accelerate import Accelerator

config = configparser.ConfigParser()
config.read("train.ini")
accelerator = Accelerator(mixed_precision=config["train"]["precision"])  # expect: P131 error
teacher = Accelerator(mixed_precision=config.get("train", "of_teacher"))  # expect: P131 error
