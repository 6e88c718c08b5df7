import torch, os
import torch.nn.functional as F
from torch import (nn,  # comment
    optim as o)
from . import x
from torch import *
try: import a.b
except: pass
x.add_(f"{F.conv2d}", r"\"", '''
import z
''')
