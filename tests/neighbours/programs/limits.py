"""Low limits on open files, file size, locked memory and core dumps."""
import resource

from rounds import bits, rounds, step

resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for number in rounds():
    print(number, bits(*step(number)))
    print(resource.getrlimit(resource.RLIMIT_NOFILE))
