from multiprocessing import Pool
def work(item):
    return 1 / item
if __name__ == "__main__":
    with Pool(2) as pool:
        pool.map(work, [1, 2, 0])
