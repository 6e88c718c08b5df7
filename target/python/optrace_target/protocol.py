"""The names in the messages between the command and a traced process.

tracer/connection/protocol.h lists the same names for the other side. This file must be valid in
every Python version, because a Python that is too old reports its version with it.
"""


class Message:
    """The kinds of messages from the process: values of Key.MESSAGE."""

    PYTHON = "python"
    PROBLEM = "problem"
    READY = "ready"
    RECORDED = "recorded"
    META = "meta"
    PROGRAM = "program"
    IMPORTED = "imported"
    RECORDING = "recording"
    STARTED = "started"
    STOPPED = "stopped"
    TABLES = "tables"
    LEFT = "left"
    ENDED = "ended"


class Order:
    """The kinds of messages from the command: values of Key.ORDER."""

    LOAD = "load"  # Load the agents.
    PREPARE = "prepare"
    RECORD = "record"
    DESCRIBE = "describe"
    FINISH = "finish"
    START = "start"
    STOP = "stop"
    TABLES = "tables"
    WATCH = "watch"  # Record only what is compiled.


class Key:
    """The keys of messages."""

    # All messages.
    MESSAGE = "message"
    ORDER = "order"
    # Message.PROBLEM. `status` is an exit status.
    STATUS = "status"
    WHAT = "what"
    REMEDY = "remedy"
    # Message.PYTHON and Message.PROGRAM.
    IMPLEMENTATION = "implementation"
    VERSION = "version"
    TORCH = "torch"
    MODULES = "modules"
    CUDA = "cuda"
    FORKED = "forked"
    PARENT = "parent"
    RANK = "rank"
    ARGUMENTS = "arguments"
    # The request that applies to all calls of ops.
    DEVICE = "device"
    USE_JUMPS = "use_jumps"
    AGENT = "agent"
    SAMPLES = "samples"
    # Order.PREPARE, and Message.READY with the number of the call and the modules that it loaded.
    OP = "op"
    BACKWARD = "backward"
    REQUIRES_GRAD = "requires_grad"
    SHAPES = "shapes"
    DTYPES = "dtypes"
    INPUT = "input"
    COMPARE = "compare"
    COMPILE = "compile"
    CALL = "call"
    # Order.RECORD.
    PLANS = "plans"
    RETURNS_PER_SITE = "returns_per_site"
    OP_AGENT = "op_agent"
    TENSORS = "tensors"  # The most bytes of the log of tensors; 0: none.
    ACTIVITY_AGENT = "activity_agent"
    CUDA_CALLS_AGENT = "cuda_calls_agent"
    FILES = "files"
    TIMEOUT = "timeout"
    # Message.RECORDING and Message.STARTED.
    WARNINGS = "warnings"
    PYTHON_FRAMES = "python_frames"
    # Message.ENDED: the number of completed steps, if they are counted.
    STEPS = "steps"
    # Order.DESCRIBE and Order.TABLES, and the answers.
    OPS = "ops"
    META = "meta"
