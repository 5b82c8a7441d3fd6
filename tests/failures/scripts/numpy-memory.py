import numpy as np
np.ones((1 << 38,))
