import json, os
os.mkdir("model")
json.dump({"model_type": "llama"}, open("model/config.json", "w"))
json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, open("model/tokenizer_config.json", "w"))
open("model/tokenizer.json", "w").write('{"version": "1.0", "model": {"type": "BPE", "vocab"')
