import numpy as np
np.save('small/embeddings.npy', np.zeros(1 << 20))
