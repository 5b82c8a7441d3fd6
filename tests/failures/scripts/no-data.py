print(open('data/train.jsonl').read())
