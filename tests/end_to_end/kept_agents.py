"""The op agents in the cache of all tests, where the first trace of each torch builds one."""
import os
import pathlib
import re


def kept_agents():
    """Returns the folders of the agents that are built. Others are being built at the moment."""
    cache = (os.environ.get("OPTRACE_CACHE_DIR") or
             os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")) + "/optrace")
    folders = (pathlib.Path(cache) / "op-agents").iterdir()
    return [folder for folder in folders if re.fullmatch("[0-9a-f]{32}", folder.name)]
