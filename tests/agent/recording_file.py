"""A file that the agent records into, for programs that nothing reads while they run."""
import ctypes

_SIZE = 256 << 20  # In bytes; only what is written to takes disk space.


def record_into(agent, path):
    """Makes the agent's next recording go to a new file. All Python calls are recorded."""
    with open(path, "wb+") as file:
        assert agent.optrace_agent_share(file.fileno(), ctypes.c_uint64(_SIZE)) == 0
    assert agent.optrace_agent_every_python_call(1) == 0
