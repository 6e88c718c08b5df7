// NCCL on emulated devices: collectives and transfers. Data between ranks is not exchanged: with
// one rank a collective copies, like NCCL itself; with more, the outputs are unchanged and the
// record says so.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "gpu/arguments/call_values.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/libraries/nccl_communicators.h"

namespace optrace::emulated {
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

// Operations delayed by ncclGroupStart() on this thread.
thread_local int depth = 0;
thread_local std::vector<SelfTransfer> self_transfers;

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
  if (!recording()) return;
  Call call(transfer.function, "library");
  auto& json = call.json();
  put(json, "count", transfer.count);
  put(json, "type", kDataTypes.at(transfer.type).name);
  if (transfer.operation != kNone) {
    json.key("operation");
    const auto index = static_cast<std::size_t>(transfer.operation);
    json.string(index < kOperations.size() ? kOperations.at(index) : "premultiplied sum");
  }
  if (transfer.root_key != nullptr) put(json, transfer.root_key, transfer.root);
  put(json, "rank", transfer.communicator->rank);
  put(json, "ranks", transfer.communicator->ranks);
  if (transfer.communicator->ranks > 1) put(json, "exchanged", false);
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
  self_transfers.push_back(
      {transfer.communicator, transfer.send, transfer.receive, bytes, transfer.stream});
  if (depth > 0) return ncclSuccess;
  return deliver_to_self(std::move(self_transfers));
}

}  // namespace

int group_depth() {
  return depth;
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclReduce", sendbuff, recvbuff, count, datatype, op, root, "root", comm, stream});
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return collective({"ncclBcast", buff, buff, count, datatype, kNone, root, "root", comm, stream});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(
      {"ncclBroadcast", sendbuff, recvbuff, count, datatype, kNone, root, "root", comm, stream});
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(
      {"ncclAllReduce", sendbuff, recvbuff, count, datatype, op, kNone, nullptr, comm, stream});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return collective({"ncclReduceScatter", sendbuff, recvbuff, recvcount, datatype, op, kNone,
                     nullptr, comm, stream});
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return collective({"ncclAllGather", sendbuff, recvbuff, sendcount, datatype, kNone, kNone,
                     nullptr, comm, stream});
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return point_to_point(
      {"ncclSend", sendbuff, nullptr, count, datatype, kNone, peer, "peer", comm, stream});
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return point_to_point(
      {"ncclRecv", nullptr, recvbuff, count, datatype, kNone, peer, "peer", comm, stream});
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse("ncclGroupEnd", nullptr, ncclInvalidUsage, "no group was started");
  if (--depth > 0) return ncclSuccess;
  const ncclResult_t split = carry_out_splits();
  const ncclResult_t sent = deliver_to_self(std::exchange(self_transfers, {}));
  return split != ncclSuccess ? split : sent;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0)
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  // The function asks for the group's duration, but there are no times.
  depth = 0;
  self_transfers.clear();
  drop_splits();
  return refuse("ncclGroupSimulateEnd", nullptr, ncclInvalidUsage,
                "an emulated device has no times");
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclAlltoAll", sendbuff, recvbuff, count, datatype, kNone, kNone, nullptr, comm, stream});
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclGather", sendbuff, recvbuff, count, datatype, kNone, root, "root", comm, stream});
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(
      {"ncclScatter", sendbuff, recvbuff, count, datatype, kNone, root, "root", comm, stream});
}
#endif

}  // extern "C"
