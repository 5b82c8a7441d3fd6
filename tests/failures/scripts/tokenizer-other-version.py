from tokenizers import Tokenizer
Tokenizer.from_file('tokenizer.json')
