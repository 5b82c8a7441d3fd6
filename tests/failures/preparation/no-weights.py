import json, os
os.mkdir("model")
json.dump({"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "num_attention_heads": 2}, open("model/config.json", "w"))
