# target: capability=7.5
from trl import SFTConfig, SFTTrainer

args = SFTConfig("o")  # expect: P109 warning
SFTTrainer(model="m", args=args).train()
