import json, os
os.mkdir("model")
json.dump({"model_type": "llama9"}, open("model/config.json", "w"))
