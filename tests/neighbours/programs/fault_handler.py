"""faulthandler: prints stacks on a signal and at the crash that ends the program."""
import faulthandler
import os
import signal
import sys

from rounds import bits, rounds, step

faulthandler.enable()
faulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)
for number in rounds():
    print(number, bits(*step(number)))
    os.kill(os.getpid(), signal.SIGUSR1)
sys.stdout.flush()
faulthandler._sigsegv()  # type: ignore[attr-defined]  # Not in typeshed.
