from dataclasses import dataclass, field
from typing import Optional
import transformers
@dataclass
class TrainingArguments(transformers.TrainingArguments):
    cache_dir: Optional[str] = field(default=None)
    bf16: Optional[bool] = field(default=True)  # expect: P131 info
    attn_implementation: Optional[str] = field(default="flash_attention_2")  # expect: P130 info
def train():
    parser = transformers.HfArgumentParser((TrainingArguments,))
    (args,) = parser.parse_args_into_dataclasses()  # expect: P131 info
    model = transformers.AutoModelForCausalLM.from_pretrained("x", attn_implementation=args.attn_implementation)  # expect: P130 info
    transformers.Trainer(model=model, args=args).train()
train()
