#!/usr/bin/env python3
"""replay.py FILE MODEL: replays the calls recorded on real GPUs of a model, and prints JSON lines.

FILE is fixtures/cuda/recorded-calls.jsonl.gz. Runs in a dry run. Each line of output is {"id",
"kernels": [{"name", "grid", "block", "smem": bytes}], "libraries": [function, ...], "error"}. The
library calls come from the emulated device, through the interface that the tracer's agent uses; the
kernels come from torch.profiler, as on the GPUs. All of the calls together take seconds.
"""
import ctypes
import gzip
import json
import sys
import tempfile

import torch

DTYPES = {"float": torch.float32, "double": torch.float64, "c10::Half": torch.float16,
          "c10::BFloat16": torch.bfloat16, "long int": torch.int64, "int": torch.int32,
          "bool": torch.bool, "unsigned char": torch.uint8}
# Indexed by the values of c10::ScalarType and c10::MemoryFormat.
SCALAR_TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
                torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
                torch.bool, None, None, None, torch.bfloat16]
MEMORY_FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last,
                  torch.channels_last_3d]
DEVICE = "cuda"

NOTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64,
                        ctypes.c_uint64)
NEW_RECORD = ctypes.CFUNCTYPE(ctypes.c_uint32)
KEEP_RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_char),
                               ctypes.c_uint64)
RECORDING = ctypes.CFUNCTYPE(ctypes.c_uint32)


class Device:
    """Records the kernel launches and library calls of the emulated device, in order."""

    def __init__(self):
        self.records = {}
        self.calls = []
        self.round = 0
        library = ctypes.CDLL(None)
        self.functions = (NOTE(self.note), NEW_RECORD(lambda: len(self.records) + 1),
                          KEEP_RECORD(self.keep_record), RECORDING(lambda: self.round))
        # struct optrace_recorder_functions; the device calls only the first four.
        table = (ctypes.c_void_p * 11)(*(ctypes.cast(each, ctypes.c_void_p)
                                         for each in self.functions + self.functions[3:] * 7))
        if library.optrace_device_use(table) != 0:
            sys.exit("replay.py: the emulated device does not tell what it is asked for")

    def note(self, kind, record, number, thread):
        self.calls.append(self.records.get(record, {"kind": "unknown"}))
        return 0

    def keep_record(self, record, text, size):
        self.records[record] = json.loads(ctypes.string_at(text, size))
        return 0

    def calls_of(self, function):
        self.calls = []
        self.round = 1
        try:
            function()
        finally:
            self.round = 0
        return self.calls


def tensor(dims, dtype, strides=None):
    if not strides or len(strides) != len(dims):
        return torch.empty(dims, dtype=dtype, device=DEVICE)
    return torch.empty_strided(dims, strides, dtype=dtype, device=DEVICE)


def number(text):
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return float(text)


def plain_value(kind, text):
    """Parses a value that isn't a tensor; `kind` is its type as spelled in a schema."""
    if text == "":
        return None
    if kind.endswith("[]") or text.startswith("["):
        return [number(each) for each in text.strip("[]").split(",") if each.strip()]
    if kind == "ScalarType":
        return SCALAR_TYPES[int(text)]
    if kind == "MemoryFormat":
        return MEMORY_FORMATS[int(text)]
    if kind == "Layout":
        return torch.strided
    if kind == "Device":
        return torch.device(text)
    if kind == "float":
        return float(text)
    return number(text)


def kind_of(argument):
    """Returns the type in the schema, without "Optional"."""
    kind = str(argument.real_type)
    if kind.startswith("Optional["):
        return kind.removeprefix("Optional[").removesuffix("]")
    return kind


def arguments_on_cpu(case):
    """Returns the indices of zero-dimensional CPU tensors; at least one tensor is on the device."""
    if "zero_dim_arg_is_cpu_scalar" not in case["flags"]:
        return []
    tensors = [i for i, kind in enumerate(case["types"]) if kind in DTYPES]
    numbers = [i for i in tensors if case["dims"][i] == []]
    return numbers[1:] if numbers == tensors else numbers


def arguments_of(case, schema):
    values = {}
    on_cpu = arguments_on_cpu(case)
    for i, argument in enumerate(schema.arguments):
        kind = kind_of(argument)
        recorded = case["types"][i]
        if recorded == "TensorList":
            dtype = DTYPES[case["tensorlist_dtype"]]
            strides = case["strides"][i] or [None] * len(case["dims"][i])
            values[argument.name] = [tensor(dims, dtype, stride)
                                     for dims, stride in zip(case["dims"][i], strides)]
        elif recorded in DTYPES:
            values[argument.name] = (
                torch.ones([], dtype=DTYPES[recorded]) if i in on_cpu
                else tensor(case["dims"][i], DTYPES[recorded], case["strides"][i]))
        elif argument.name in case.get("str_hint", {}):
            values[argument.name] = case["str_hint"][argument.name]
        else:
            value = plain_value(kind, case["concrete"][i])
            if value is not None or not argument.has_default_value():
                values[argument.name] = value
    names = {argument.name for argument in schema.arguments}
    if "device" in names and not any(isinstance(value, torch.Tensor) for value in values.values()):
        values["device"] = torch.device(DEVICE)
    return values


def operation_of(case):
    name, _, overload = case["overload"].partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


def replay(device, case):
    operation = operation_of(case)
    values = arguments_of(case, operation._schema)
    called = {}

    def call():
        called["result"] = operation(**values)
    with torch.no_grad():
        calls = device.calls_of(call)
    return {"id": case["id"], "error": None,
            "kernels": [each["kernel"] for each in calls if each["kind"] == "kernel"],
            "libraries": [each["call"] for each in calls if each["kind"] == "library"]}


def profiled_kernels(profile):
    """Returns the kernels in the profiler's trace, in the order of their launches."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name) as trace:
            events = json.load(trace)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return [{"name": event["name"], "grid": event["args"]["grid"], "block": event["args"]["block"],
             "smem": event["args"]["shared memory"]}
            for event in sorted(kernels, key=lambda event: event["args"]["correlation"])]


def main():
    file, model = sys.argv[1:]
    with gzip.open(file, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    device = Device()
    tensor([1], torch.float32).fill_(1)  # Triggers the one-time initialization.
    seen = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for case in cases:
            if case["device_name"] != model:
                continue
            try:
                seen.append(replay(device, case))
            except (RuntimeError, TypeError, ValueError, KeyError, IndexError) as error:
                message = f"{type(error).__name__}: {error}".splitlines()[0]
                seen.append({"id": case["id"], "kernels": [], "libraries": [], "error": message})
    kernels = iter(profiled_kernels(profile))
    for one in seen:
        one["kernels"] = [next(kernels) for _ in one["kernels"]]
        print(json.dumps(one))
    assert next(kernels, None) is None


if __name__ == "__main__":
    main()
