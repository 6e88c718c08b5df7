// NCCL on emulated devices. A communicator stores its ranks and device. Data between ranks is not
// exchanged: with one rank a collective copies, like NCCL itself; with more, the outputs are
// unchanged and the record says so.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_versions.h"

using optrace::emulated::Call;
using optrace::emulated::put;

/// A communicator of one rank.
struct ncclComm {
  int ranks = 0;
  int rank = 0;
  int device = 0;
  ncclUniqueId id{};
  int splits = 0;  ///< Number of communicators split off so far; equal in all ranks.
  /// Index for the program's own reductions, which are numbered from ncclNumOps on.
  int next_op = 0;
  std::string error;  ///< The last error.
  std::unordered_set<int> ops;
  std::unordered_map<void*, std::size_t> registered;
};

namespace {

struct DataType {
  const char* name;
  std::size_t bytes;
};

// In the order of ncclDataType_t.
constexpr std::array<DataType, 12> kDataTypes{{{"int8", 1},
                                               {"uint8", 1},
                                               {"int32", 4},
                                               {"uint32", 4},
                                               {"int64", 8},
                                               {"uint64", 8},
                                               {"float16", 2},
                                               {"float32", 4},
                                               {"float64", 8},
                                               {"bfloat16", 2},
                                               {"float8_e4m3", 1},
                                               {"float8_e5m2", 1}}};
// In the order of ncclRedOp_t.
constexpr std::array<const char*, 5> kOperations{"sum", "prod", "max", "min", "avg"};

std::mutex communicators_mutex;

/// Existing communicators. A pointer that is not in this set is rejected and not dereferenced.
std::unordered_set<const ncclComm*>& communicators() {
  static auto* const live =
      new std::unordered_set<const ncclComm*>;  // Never destroyed, because NCCL is called at exit.
  return *live;
}

bool lives(const ncclComm* communicator) {
  const std::lock_guard lock(communicators_mutex);
  return communicators().count(communicator) != 0;
}

ncclComm_t make_communicator(int ranks, int rank, int device, const ncclUniqueId& id) {
  auto communicator = std::make_unique<ncclComm>();
  communicator->ranks = ranks;
  communicator->rank = rank;
  communicator->device = device;
  communicator->id = id;
  const std::lock_guard lock(communicators_mutex);
  communicators().insert(communicator.get());
  return communicator.release();
}

ncclResult_t forget(ncclComm_t communicator) {
  {
    const std::lock_guard lock(communicators_mutex);
    if (communicators().erase(communicator) == 0) return ncclInvalidArgument;
  }
  delete communicator;
  return ncclSuccess;
}

thread_local std::string thread_error;  // Error of a call without a communicator.

ncclResult_t refuse(const char* function, ncclComm_t communicator, ncclResult_t result,
                    const std::string& why) {
  (communicator == nullptr ? thread_error : communicator->error) = why;
  optrace::emulated::record_refusal(function, why, result,
                                    optrace::emulated::enumerator_name<ncclResult_t, 0, 8>(result));
  return result;
}

ncclResult_t refuse_dead(const char* function) {
  return refuse(function, nullptr, ncclInvalidArgument, "no such communicator");
}

/// Value of an argument that a collective or transfer does not have.
constexpr int kNone = -1;

struct Transfer {
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;  ///< Number of elements passed to the function.
  ncclDataType_t type;
  int operation;
  int root;  ///< Root or peer.
  const char* root_key;
  ncclComm_t communicator;
  cudaStream_t stream;
};

/// A send or receive to or from the same rank, waiting for its counterpart.
struct SelfTransfer {
  ncclComm_t communicator;
  const void* send;
  void* receive;
  std::size_t bytes;
  cudaStream_t stream;
};

struct PendingSplit {
  ncclComm_t parent;
  int color;
  int key;
  ncclComm_t* created;
};

/// Operations delayed by ncclGroupStart() on this thread.
struct Group {
  int depth = 0;
  std::vector<SelfTransfer> to_self;
  std::vector<PendingSplit> splits;
};
thread_local Group group;

ncclResult_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (to == from || bytes == 0) return ncclSuccess;
  // A capturing stream adds the copy to its graph.
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream) == cudaSuccess
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

ncclResult_t check(const Transfer& transfer) {
  const ncclComm_t communicator = transfer.communicator;
  if (!lives(communicator)) return refuse_dead(transfer.function);
  if (transfer.type < 0 || transfer.type >= ncclNumTypes)
    return refuse(transfer.function, communicator, ncclInvalidArgument,
                  "unknown data type " + std::to_string(transfer.type));
  if (transfer.operation >= static_cast<int>(kOperations.size()) &&
      communicator->ops.count(transfer.operation) == 0)
    return refuse(transfer.function, communicator, ncclInvalidArgument,
                  "unknown reduction " + std::to_string(transfer.operation));
  if (transfer.root_key != nullptr && (transfer.root < 0 || transfer.root >= communicator->ranks))
    return refuse(transfer.function, communicator, ncclInvalidArgument,
                  std::string(transfer.root_key) + " " + std::to_string(transfer.root) + " of " +
                      std::to_string(communicator->ranks));
  return ncclSuccess;
}

void record(const Transfer& transfer) {
  if (!optrace::emulated::recording()) return;
  Call call(transfer.function, "library");
  auto& json = call.json();
  put(json, "count", transfer.count);
  put(json, "type", kDataTypes.at(transfer.type).name);
  if (transfer.operation != kNone) {
    json.key("operation");
    const auto index = static_cast<std::size_t>(transfer.operation);
    json.string(index < kOperations.size() ? kOperations.at(index) : "premultiplied sum");
  }
  if (transfer.root_key != nullptr) {
    put(json, transfer.root_key, transfer.root);
  }
  put(json, "rank", transfer.communicator->rank);
  put(json, "ranks", transfer.communicator->ranks);
  if (transfer.communicator->ranks > 1) {
    put(json, "exchanged", false);
  }
  call.record();
}

/// Handles a collective in which a rank receives as much data as it sends.
ncclResult_t collective(const Transfer& transfer) {
  if (const ncclResult_t result = check(transfer); result != ncclSuccess) return result;
  record(transfer);
  if (transfer.communicator->ranks > 1) return ncclSuccess;
  return copy(transfer.receive, transfer.send, transfer.count * kDataTypes.at(transfer.type).bytes,
              transfer.stream);
}

/// Matches a rank's sends to itself with its receives, in order.
ncclResult_t deliver_to_self(std::vector<SelfTransfer> transfers) {
  while (!transfers.empty()) {
    const SelfTransfer first = transfers.front();
    transfers.erase(transfers.begin());
    const auto counterpart =
        std::find_if(transfers.begin(), transfers.end(), [&](const SelfTransfer& other) {
          return other.communicator == first.communicator &&
                 (other.send == nullptr) != (first.send == nullptr);
        });
    if (counterpart == transfers.end())
      return refuse("ncclGroupEnd", nullptr, ncclInvalidUsage,
                    "a rank sends itself what it doesn't receive in the same group");
    const SelfTransfer& sender = first.send != nullptr ? first : *counterpart;
    const SelfTransfer& receiver = first.send != nullptr ? *counterpart : first;
    const ncclResult_t result = copy(receiver.receive, sender.send,
                                     std::min(sender.bytes, receiver.bytes), receiver.stream);
    if (result != ncclSuccess) return result;
    transfers.erase(counterpart);
  }
  return ncclSuccess;
}

ncclResult_t point_to_point(const Transfer& transfer) {
  if (const ncclResult_t result = check(transfer); result != ncclSuccess) return result;
  record(transfer);
  if (transfer.root != transfer.communicator->rank) return ncclSuccess;
  const std::size_t bytes = transfer.count * kDataTypes.at(transfer.type).bytes;
  group.to_self.push_back(
      {transfer.communicator, transfer.send, transfer.receive, bytes, transfer.stream});
  if (group.depth > 0) return ncclSuccess;
  return deliver_to_self(std::move(group.to_self));
}

// Splitting: the new communicators depend on the colors of all ranks. The ranks exchange them
// through shared memory named after the communicator and the number of the split.

struct SplitEntry {
  std::atomic<int> present;
  int color;
  int key;
};

class SplitMeeting {
 public:
  explicit SplitMeeting(const PendingSplit& split) : split_(split), ranks_(split.parent->ranks) {
    std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
    for (const char byte : split.parent->id.internal)
      hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
    char name[80];
    std::snprintf(name, sizeof name, "/optrace-nccl-%u-%016llx-%d", static_cast<unsigned>(getuid()),
                  static_cast<unsigned long long>(hash), split.parent->splits);
    name_ = name;
    const int file = shm_open(name, O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return;
    if (ftruncate(file, static_cast<off_t>(bytes())) == 0) {
      void* const mapped = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (mapped != MAP_FAILED) memory_ = mapped;
    }
    close(file);
    if (memory_ == nullptr) return;
    SplitEntry& own = entry(split.parent->rank);
    own.color = split.color;
    own.key = split.key;
    own.present.store(1, std::memory_order_release);
  }
  SplitMeeting(const SplitMeeting&) = delete;
  SplitMeeting& operator=(const SplitMeeting&) = delete;
  ~SplitMeeting() {
    if (memory_ == nullptr) return;
    // All ranks have read it when the last one leaves.
    if (left().fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) shm_unlink(name_.c_str());
    munmap(memory_, bytes());
  }

  /// Waits for the other ranks, as ncclCommSplit does.
  ncclResult_t settle() {
    using namespace std::chrono_literals;
    constexpr auto kPatience = 300s;
    if (memory_ == nullptr)
      return refuse("ncclCommSplit", split_.parent, ncclSystemError,
                    "no shared memory: " + std::string(std::strerror(errno)));
    const auto start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < ranks_; ++rank) {
      while (entry(rank).present.load(std::memory_order_acquire) == 0) {
        if (std::chrono::steady_clock::now() - start > kPatience)
          return refuse("ncclCommSplit", split_.parent, ncclSystemError,
                        "rank " + std::to_string(rank) + " did not come to split");
        std::this_thread::sleep_for(1ms);
      }
    }
    *split_.created = nullptr;
    if (split_.color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    // New ranks are sorted by key, then by old rank.
    int ranks = 0;
    int new_rank = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const SplitEntry& other = entry(rank);
      if (other.color != split_.color) continue;
      ++ranks;
      if (other.key < split_.key || (other.key == split_.key && rank < split_.parent->rank))
        ++new_rank;
    }
    // An id that is unique to this color.
    ncclUniqueId id = split_.parent->id;
    const int marks[] = {split_.parent->splits, split_.color};
    std::memcpy(id.internal + sizeof id.internal - sizeof marks, marks, sizeof marks);
    std::memcpy(id.internal, &split_.parent->ranks, sizeof split_.parent->ranks);
    *split_.created = make_communicator(ranks, new_rank, split_.parent->device, id);
    return ncclSuccess;
  }

 private:
  std::size_t bytes() const { return (static_cast<std::size_t>(ranks_) + 1) * sizeof(SplitEntry); }
  SplitEntry& entry(int rank) const { return static_cast<SplitEntry*>(memory_)[rank + 1]; }
  std::atomic<int>& left() const { return static_cast<SplitEntry*>(memory_)->present; }

  PendingSplit split_;
  int ranks_;
  std::string name_;
  void* memory_ = nullptr;
};

ncclResult_t carry_out(const std::vector<PendingSplit>& splits) {
  // All ranks of this thread publish their colors before any of them waits.
  std::deque<SplitMeeting> meetings;
  for (const PendingSplit& split : splits) {
    ++split.parent->splits;
    meetings.emplace_back(split);
  }
  for (SplitMeeting& meeting : meetings)
    if (const ncclResult_t result = meeting.settle(); result != ncclSuccess) return result;
  return ncclSuccess;
}

void record_communicator(const char* function, int ranks, int rank) {
  Call call(function, "library");
  put(call.json(), "rank", rank);
  put(call.json(), "ranks", ranks);
  call.record();
}

ncclResult_t join(const char* function, ncclComm_t* created, int ranks, int rank,
                  const ncclUniqueId& id) {
  if (created == nullptr)
    return refuse(function, nullptr, ncclInvalidArgument, "no room for the communicator");
  *created = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(function, nullptr, ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  *created = make_communicator(ranks, rank, optrace::emulated::current_device(), id);
  record_communicator(function, ranks, rank);
  return ncclSuccess;
}

}  // namespace

extern "C" {

OPTRACE_DEVICE_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  if (uniqueId == nullptr) return ncclInvalidArgument;
  std::random_device random;
  for (char& byte : uniqueId->internal) byte = static_cast<char>(random());
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

OPTRACE_DEVICE_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  return lives(comm) ? comm->error.c_str() : thread_error.c_str();
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks,
                                                    ncclUniqueId commId, int rank) {
  return join("ncclCommInitRank", comm, nranks, rank, commId);
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks,
                                                          ncclUniqueId commId, int rank,
                                                          ncclConfig_t* /*config*/) {
  return join("ncclCommInitRankConfig", comm, nranks, rank, commId);
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  if (comm == nullptr || ndev < 1)
    return refuse("ncclCommInitAll", nullptr, ncclInvalidArgument, "no devices");
  std::unordered_set<int> devices;
  for (int rank = 0; rank < ndev; ++rank) {
    const int device = devlist == nullptr ? rank : devlist[rank];
    if (device < 0 || device >= optrace::emulated::device_count())
      return refuse("ncclCommInitAll", nullptr, ncclUnhandledCudaError,
                    "there is no device " + std::to_string(device));
    if (!devices.insert(device).second)
      return refuse("ncclCommInitAll", nullptr, ncclInvalidUsage,
                    "device " + std::to_string(device) + " is there twice");
  }
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  for (int rank = 0; rank < ndev; ++rank) {
    comm[rank] = make_communicator(ndev, rank, devlist == nullptr ? rank : devlist[rank], id);
    record_communicator("ncclCommInitAll", ndev, rank);
  }
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return lives(comm) ? ncclSuccess : refuse_dead("ncclCommFinalize");
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return comm == nullptr ? ncclSuccess : forget(comm);
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return comm == nullptr ? ncclSuccess : forget(comm);
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                                                 ncclComm_t* newcomm, ncclConfig_t* /*config*/) {
  if (!lives(comm) || newcomm == nullptr) return refuse_dead("ncclCommSplit");
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
    return refuse("ncclCommSplit", comm, ncclInvalidArgument, "color " + std::to_string(color));
  *newcomm = nullptr;
  Call call("ncclCommSplit", "library");
  put(call.json(), "color", color);
  put(call.json(), "key", key);
  put(call.json(), "rank", comm->rank);
  put(call.json(), "ranks", comm->ranks);
  call.record();
  group.splits.push_back({comm, color, key, newcomm});
  if (group.depth > 0) return ncclSuccess;
  return carry_out(std::exchange(group.splits, {}));
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm,
                                                         ncclResult_t* asyncError) {
  if (!lives(comm) || asyncError == nullptr) return refuse_dead("ncclCommGetAsyncError");
  *asyncError = ncclSuccess;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!lives(comm) || count == nullptr) return refuse_dead("ncclCommCount");
  *count = comm->ranks;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (!lives(comm) || device == nullptr) return refuse_dead("ncclCommCuDevice");
  *device = comm->device;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (!lives(comm) || rank == nullptr) return refuse_dead("ncclCommUserRank");
  *rank = comm->rank;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  if (ptr == nullptr) return ncclInvalidArgument;
  *ptr = optrace::emulated::allocate(size, optrace::emulated::MemoryKind::device,
                                     optrace::emulated::current_device());
  return *ptr == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclMemFree(void* ptr) {
  return optrace::emulated::release(ptr) ? ncclSuccess : ncclInvalidArgument;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size,
                                                    void** handle) {
  if (!lives(comm) || handle == nullptr) return refuse_dead("ncclCommRegister");
  comm->registered.emplace(buff, size);
  *handle = buff;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (!lives(comm)) return refuse_dead("ncclCommDeregister");
  return comm->registered.erase(handle) == 1
             ? ncclSuccess
             : refuse("ncclCommDeregister", comm, ncclInvalidArgument, "it was not registered");
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* /*scalar*/,
                                                            ncclDataType_t /*datatype*/,
                                                            ncclScalarResidence_t /*residence*/,
                                                            ncclComm_t comm) {
  if (!lives(comm) || op == nullptr) return refuse_dead("ncclRedOpCreatePreMulSum");
  const int number = ncclNumOps + comm->next_op++;
  comm->ops.insert(number);
  *op = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (!lives(comm)) return refuse_dead("ncclRedOpDestroy");
  return comm->ops.erase(op) == 1
             ? ncclSuccess
             : refuse("ncclRedOpDestroy", comm, ncclInvalidArgument, "it was not created");
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                              ncclDataType_t datatype, ncclRedOp_t op, int root,
                                              ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclReduce", sendbuff, recvbuff, count, datatype, op, root, "root", comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype,
                                             int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({"ncclBcast", buff, buff, count, datatype, kNone, root, "root", comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                                 cudaStream_t stream) {
  return collective(
      {"ncclBroadcast", sendbuff, recvbuff, count, datatype, kNone, root, "root", comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                                 ncclDataType_t datatype, ncclRedOp_t op,
                                                 ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclAllReduce", sendbuff, recvbuff, count, datatype, op, kNone, nullptr, comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff,
                                                     size_t recvcount, ncclDataType_t datatype,
                                                     ncclRedOp_t op, ncclComm_t comm,
                                                     cudaStream_t stream) {
  return collective({"ncclReduceScatter", sendbuff, recvbuff, recvcount, datatype, op, kNone,
                     nullptr, comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff,
                                                 size_t sendcount, ncclDataType_t datatype,
                                                 ncclComm_t comm, cudaStream_t stream) {
  return collective({"ncclAllGather", sendbuff, recvbuff, sendcount, datatype, kNone, kNone,
                     nullptr, comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclSend(const void* sendbuff, size_t count,
                                            ncclDataType_t datatype, int peer, ncclComm_t comm,
                                            cudaStream_t stream) {
  return point_to_point(
      {"ncclSend", sendbuff, nullptr, count, datatype, kNone, peer, "peer", comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype,
                                            int peer, ncclComm_t comm, cudaStream_t stream) {
  return point_to_point(
      {"ncclRecv", nullptr, recvbuff, count, datatype, kNone, peer, "peer", comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclGroupEnd() {
  if (group.depth == 0)
    return refuse("ncclGroupEnd", nullptr, ncclInvalidUsage, "no group was started");
  if (--group.depth > 0) return ncclSuccess;
  const ncclResult_t split = carry_out(std::exchange(group.splits, {}));
  const ncclResult_t sent = deliver_to_self(std::exchange(group.to_self, {}));
  return split != ncclSuccess ? split : sent;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0)
OPTRACE_DEVICE_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* /*simInfo*/) {
  // The function asks for the group's duration, but there are no times.
  group = {};
  return refuse("ncclGroupSimulateEnd", nullptr, ncclInvalidUsage,
                "an emulated device has no times");
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks,
                                                            int myrank, int nId,
                                                            ncclUniqueId* commIds,
                                                            ncclConfig_t* /*config*/) {
  if (nId < 1 || nId > nranks || commIds == nullptr)
    return refuse("ncclCommInitRankScalable", nullptr, ncclInvalidArgument,
                  std::to_string(nId) + " ids for " + std::to_string(nranks) + " ranks");
  return join("ncclCommInitRankScalable", newcomm, nranks, myrank, commIds[0]);
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList,
                                                  int excludeRanksCount, ncclComm_t* newcomm,
                                                  ncclConfig_t* /*config*/, int /*shrinkFlags*/) {
  if (!lives(comm) || newcomm == nullptr || (excludeRanksCount > 0 && excludeRanksList == nullptr))
    return refuse_dead("ncclCommShrink");
  const std::unordered_set<int> excluded(excludeRanksList, excludeRanksList + excludeRanksCount);
  if (excluded.count(comm->rank) != 0)
    return refuse("ncclCommShrink", comm, ncclInvalidArgument, "the calling rank is excluded");
  int ranks = 0;
  int rank = 0;
  for (int other = 0; other < comm->ranks; ++other) {
    if (excluded.count(other) != 0) continue;
    if (other < comm->rank) ++rank;
    ++ranks;
  }
  ++comm->splits;
  ncclUniqueId id = comm->id;
  std::memcpy(id.internal, &comm->splits, sizeof comm->splits);
  *newcomm = make_communicator(ranks, rank, comm->device, id);
  record_communicator("ncclCommShrink", ranks, rank);
  return ncclSuccess;
}

// A window is represented by its memory.
OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size,
                                                          ncclWindow_t* win, int /*winFlags*/) {
  if (!lives(comm) || win == nullptr) return refuse_dead("ncclCommWindowRegister");
  comm->registered.emplace(buff, size);
  *win = static_cast<ncclWindow_t>(buff);
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return ncclCommDeregister(comm, win);
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
OPTRACE_DEVICE_EXPORT ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                                ncclDataType_t datatype, ncclComm_t comm,
                                                cudaStream_t stream) {
  return collective(
      {"ncclAlltoAll", sendbuff, recvbuff, count, datatype, kNone, kNone, nullptr, comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count,
                                              ncclDataType_t datatype, int root, ncclComm_t comm,
                                              cudaStream_t stream) {
  return collective(
      {"ncclGather", sendbuff, recvbuff, count, datatype, kNone, root, "root", comm, stream});
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                                               ncclDataType_t datatype, int root, ncclComm_t comm,
                                               cudaStream_t stream) {
  return collective(
      {"ncclScatter", sendbuff, recvbuff, count, datatype, kNone, root, "root", comm, stream});
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  if (!lives(comm) || uniqueId == nullptr) return refuse_dead("ncclCommGetUniqueId");
  return ncclGetUniqueId(uniqueId);
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win,
                                                     void** outUserPtr) {
  if (!lives(comm) || outUserPtr == nullptr) return refuse_dead("ncclWinGetUserPtr");
  if (comm->registered.count(win) == 0)
    return refuse("ncclWinGetUserPtr", comm, ncclInvalidArgument, "no such window");
  *outUserPtr = win;
  return ncclSuccess;
}

OPTRACE_DEVICE_EXPORT ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t /*stat*/,
                                                    uint64_t* value) {
  if (!lives(comm) || value == nullptr) return refuse_dead("ncclCommMemStats");
  *value = 0;  // A communicator uses no device memory here.
  return ncclSuccess;
}
#endif

}  // extern "C"
