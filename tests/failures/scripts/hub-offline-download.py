from huggingface_hub import snapshot_download
snapshot_download('gpt2')
