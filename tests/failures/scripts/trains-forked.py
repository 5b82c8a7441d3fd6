import os
from tokenizers import Tokenizer, models
tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
tokenizer.encode_batch(["a"] * 2000)
from torch.utils.data import DataLoader
class Texts(list):
    def __getitem__(self, index): return len(tokenizer.encode_batch(["a"] * 4))
for batch in DataLoader(Texts(range(8)), num_workers=2):
    pass
print("step 1 | loss 0.5")
