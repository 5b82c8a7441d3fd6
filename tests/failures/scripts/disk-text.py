with open('small/metrics.jsonl', 'w') as log:
    while True:
        log.write('x' * 65536)
