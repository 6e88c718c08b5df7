#pragma once

// The names in the messages between the command and a traced process: JSON objects, one per line.
// target/python/optrace_target/protocol.py lists the same names for the other side.
// target/python/optrace_target/session.py describes the order of the messages for calls
// of ops.
namespace optrace::protocol {

/// The kinds of messages from the process: values of key::kMessage.
namespace message {
inline constexpr const char* kPython = "python";    ///< A Python has started that is to trace ops.
inline constexpr const char* kProblem = "problem";  ///< An order failed.
inline constexpr const char* kReady = "ready";      ///< The call is prepared.
inline constexpr const char* kRecorded = "recorded";    ///< The call was recorded.
inline constexpr const char* kMeta = "meta";            ///< The description of a call.
inline constexpr const char* kProgram = "program";      ///< The first one of a program.
inline constexpr const char* kImported = "imported";    ///< torch is imported.
inline constexpr const char* kRecording = "recording";  ///< The process uses its region.
inline constexpr const char* kStarted = "started";      ///< Recording has begun.
inline constexpr const char* kStopped = "stopped";      ///< Recording has ended.
inline constexpr const char* kTables = "tables";        ///< The dispatch tables.
inline constexpr const char* kLeft = "left";    ///< Nothing of optrace is left in the process.
inline constexpr const char* kEnded = "ended";  ///< The program or its window ends.
}  // namespace message

/// The kinds of messages from the command: values of key::kOrder.
namespace order {
inline constexpr const char* kLoad = "load";  ///< Load the agents.
inline constexpr const char* kPrepare = "prepare";
inline constexpr const char* kRecord = "record";
inline constexpr const char* kDescribe = "describe";
inline constexpr const char* kFinish = "finish";
inline constexpr const char* kStart = "start";
inline constexpr const char* kStop = "stop";
inline constexpr const char* kTables = "tables";
inline constexpr const char* kWatch = "watch";  ///< Record only what is compiled.
}  // namespace order

namespace key {
// All messages.
inline constexpr const char* kMessage = "message";
inline constexpr const char* kOrder = "order";
// message::kProblem. `status` is an exit status.
inline constexpr const char* kStatus = "status";
inline constexpr const char* kWhat = "what";
inline constexpr const char* kRemedy = "remedy";
// message::kPython and message::kProgram.
inline constexpr const char* kImplementation = "implementation";
inline constexpr const char* kVersion = "version";
inline constexpr const char* kTorch = "torch";
inline constexpr const char* kModules = "modules";
inline constexpr const char* kCuda = "cuda";
inline constexpr const char* kForked = "forked";
inline constexpr const char* kParent = "parent";
inline constexpr const char* kRank = "rank";
inline constexpr const char* kArguments = "arguments";
// The request that applies to all calls of ops.
inline constexpr const char* kDevice = "device";
inline constexpr const char* kUseJumps = "use_jumps";
inline constexpr const char* kAgent = "agent";
inline constexpr const char* kSamples = "samples";
// order::kPrepare, and message::kReady with the number of the call.
inline constexpr const char* kOp = "op";
inline constexpr const char* kBackward = "backward";
inline constexpr const char* kRequiresGrad = "requires_grad";
inline constexpr const char* kShapes = "shapes";
inline constexpr const char* kDtypes = "dtypes";
inline constexpr const char* kInput = "input";
inline constexpr const char* kCompare = "compare";
inline constexpr const char* kCompile = "compile";
inline constexpr const char* kCall = "call";
// order::kRecord, order::kLoad.
inline constexpr const char* kPlans = "plans";
inline constexpr const char* kReturnsPerSite = "returns_per_site";
inline constexpr const char* kOpAgent = "op_agent";
inline constexpr const char* kTensors = "tensors";  ///< Bytes for the log of tensors, or 0.
inline constexpr const char* kActivityAgent = "activity_agent";
inline constexpr const char* kCudaCallsAgent = "cuda_calls_agent";
inline constexpr const char* kFiles = "files";
inline constexpr const char* kTimeout = "timeout";
// message::kRecording and message::kStarted.
inline constexpr const char* kWarnings = "warnings";
inline constexpr const char* kPythonFrames = "python_frames";
// message::kEnded: the number of completed steps, if they are counted.
inline constexpr const char* kSteps = "steps";
// order::kDescribe and order::kTables, and the answers.
inline constexpr const char* kOps = "ops";
inline constexpr const char* kMeta = "meta";
}  // namespace key

}  // namespace optrace::protocol
