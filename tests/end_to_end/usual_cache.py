"""The cache that all tests share, where the first trace of each torch keeps plans of probes."""
import os
import pathlib
import shutil


def usual_cache():
    """Returns the folder of the cache that optrace uses in the tests' own environment."""
    return pathlib.Path(os.environ.get("OPTRACE_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "optrace"))


def copy_plans(cache):
    """Makes a cache with the plans of the usual one."""
    cache.mkdir(mode=0o700, exist_ok=True)
    if (usual_cache() / "plans").exists():
        shutil.copytree(usual_cache() / "plans", cache / "plans")
