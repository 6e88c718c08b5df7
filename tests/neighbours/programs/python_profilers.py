"""cProfile, then sys.setprofile: prints the calls and events that they report."""
import cProfile
import pstats
import sys

from rounds import bits, rounds, step

for number in rounds():
    profile = cProfile.Profile()
    profile.enable()
    results = step(number)
    profile.disable()
    calls = {name[2]: entry[1] for name, entry in vars(pstats.Stats(profile))["stats"].items()}
    events: list = []
    sys.setprofile(lambda frame, event, argument: events.append((event, frame.f_code.co_name)))
    step(number)
    sys.setprofile(None)
    print(number, bits(*results), sorted(calls.items())[:40], events)
