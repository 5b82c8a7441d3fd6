import os, signal, sys, time, logging, threading
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("train")
def usr1(s, f):
    log.warning("SIGUSR1: the time limit of this job is 60 s away; checkpoint written, leaving for requeue"); sys.exit(1)
signal.signal(signal.SIGUSR1, usr1)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
for i in range(400): time.sleep(0.02); i % 20 or log.info("step %d loss %.3f", i, 3 / (1 + i / 50))
