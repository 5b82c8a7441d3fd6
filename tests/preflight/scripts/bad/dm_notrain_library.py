from transformers import AutoModelForCausalLM
from trl import RewardTrainer, RewardConfig
class Loader:
    @staticmethod
    def load(path, device_map="auto"):
        return AutoModelForCausalLM.from_pretrained(path, device_map=device_map)  # expect: D204 warning
def train(path, ds):
    model = Loader.load(path)
    RewardTrainer(model=model, args=RewardConfig(output_dir="o", bf16=False), train_dataset=ds).train()
