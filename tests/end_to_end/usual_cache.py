"""The cache that all tests share, where the first trace of each torch builds an op agent."""
import os
import pathlib
import re
import shutil


def usual_cache():
    """Returns the folder of the cache that optrace uses in the tests' own environment."""
    return pathlib.Path(os.environ.get("OPTRACE_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "optrace"))


def kept_agents():
    """Returns the folders of the agents that are built. Others are being built at the moment."""
    return [folder for folder in (usual_cache() / "op-agents").iterdir()
            if re.fullmatch("[0-9a-f]{32}", folder.name)]


def copy_caches(cache, names=("op-agents", "plans")):
    """Makes a cache with what tracing compiled and looked up for the usual one."""
    cache.mkdir(mode=0o700, exist_ok=True)
    for name in names:
        if not (usual_cache() / name).exists():
            continue
        (cache / name).mkdir(mode=0o700)
        for kept in kept_agents() if name == "op-agents" else (usual_cache() / name).iterdir():
            copy = shutil.copytree if kept.is_dir() else shutil.copy2
            copy(kept, cache / name / kept.name)
