# target: trl=0.24.0
from trl import SFTConfig, SFTTrainer
training_args = SFTConfig(output_dir="o", per_device_train_batch_size=2)  # expect: P109 info
SFTTrainer("x", args=training_args, train_dataset=None).train()
