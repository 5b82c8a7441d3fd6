from transformers import AutoConfig
AutoConfig.from_pretrained('openai-community/gpt2')
