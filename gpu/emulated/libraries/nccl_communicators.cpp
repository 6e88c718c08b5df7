// NCCL on emulated devices: communicators, which store their ranks and device, and their memory.

#include "gpu/emulated/libraries/nccl_communicators.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device.h"

namespace optrace::emulated {
namespace {

std::mutex communicators_mutex;

/// Existing communicators. A pointer that is not in this set is rejected and not dereferenced.
std::unordered_set<const ncclComm*>& communicators() {
  static auto* const live =
      new std::unordered_set<const ncclComm*>;  // Never destroyed, because NCCL is called at exit.
  return *live;
}

thread_local std::string thread_error;  // Error of a call without a communicator.

ncclResult_t destroy(ncclComm_t communicator) {
  {
    const std::lock_guard lock(communicators_mutex);
    if (communicators().erase(communicator) == 0) return ncclInvalidArgument;
  }
  delete communicator;
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
  *created = make_communicator(ranks, rank, current_device(), id);
  record_communicator(function, ranks, rank);
  return ncclSuccess;
}

}  // namespace

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

ncclResult_t refuse(const char* function, ncclComm_t communicator, ncclResult_t result,
                    const std::string& why) {
  (communicator == nullptr ? thread_error : communicator->error) = why;
  record_refusal(function, why, result, enumerator_name<ncclResult_t, 0, 8>(result));
  return result;
}

ncclResult_t refuse_dead(const char* function) {
  return refuse(function, nullptr, ncclInvalidArgument, "no such communicator");
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  if (uniqueId == nullptr) return ncclInvalidArgument;
  std::random_device random;
  for (char& byte : uniqueId->internal) byte = static_cast<char>(random());
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
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

const char* ncclGetLastError(ncclComm_t comm) {
  return lives(comm) ? comm->error.c_str() : thread_error.c_str();
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return join("ncclCommInitRank", comm, nranks, rank, commId);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t*) {
  return join("ncclCommInitRankConfig", comm, nranks, rank, commId);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  if (comm == nullptr || ndev < 1)
    return refuse("ncclCommInitAll", nullptr, ncclInvalidArgument, "no devices");
  std::unordered_set<int> devices;
  for (int rank = 0; rank < ndev; ++rank) {
    const int device = devlist == nullptr ? rank : devlist[rank];
    if (device < 0 || device >= device_count())
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

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return lives(comm) ? ncclSuccess : refuse_dead("ncclCommFinalize");
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return comm == nullptr ? ncclSuccess : destroy(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return comm == nullptr ? ncclSuccess : destroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  if (!lives(comm) || asyncError == nullptr) return refuse_dead("ncclCommGetAsyncError");
  *asyncError = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  if (ptr == nullptr) return ncclInvalidArgument;
  *ptr = allocate(size, MemoryKind::device, current_device());
  return *ptr == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclMemFree(void* ptr) {
  return release(ptr) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  if (!lives(comm) || handle == nullptr) return refuse_dead("ncclCommRegister");
  comm->registered.emplace(buff, size);
  *handle = buff;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (!lives(comm)) return refuse_dead("ncclCommDeregister");
  return comm->registered.erase(handle) == 1
             ? ncclSuccess
             : refuse("ncclCommDeregister", comm, ncclInvalidArgument, "it was not registered");
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void*, ncclDataType_t, ncclScalarResidence_t,
                                      ncclComm_t comm) {
  if (!lives(comm) || op == nullptr) return refuse_dead("ncclRedOpCreatePreMulSum");
  const int number = ncclNumOps + comm->next_op++;
  comm->ops.insert(number);
  *op = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (!lives(comm)) return refuse_dead("ncclRedOpDestroy");
  return comm->ops.erase(op) == 1
             ? ncclSuccess
             : refuse("ncclRedOpDestroy", comm, ncclInvalidArgument, "it was not created");
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t*) {
  if (nId < 1 || nId > nranks || commIds == nullptr)
    return refuse("ncclCommInitRankScalable", nullptr, ncclInvalidArgument,
                  std::to_string(nId) + " ids for " + std::to_string(nranks) + " ranks");
  return join("ncclCommInitRankScalable", newcomm, nranks, myrank, commIds[0]);
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t*, int) {
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
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int) {
  if (!lives(comm) || win == nullptr) return refuse_dead("ncclCommWindowRegister");
  comm->registered.emplace(buff, size);
  *win = static_cast<ncclWindow_t>(buff);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return ncclCommDeregister(comm, win);
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  if (!lives(comm) || uniqueId == nullptr) return refuse_dead("ncclCommGetUniqueId");
  return ncclGetUniqueId(uniqueId);
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  if (!lives(comm) || outUserPtr == nullptr) return refuse_dead("ncclWinGetUserPtr");
  if (comm->registered.count(win) == 0)
    return refuse("ncclWinGetUserPtr", comm, ncclInvalidArgument, "no such window");
  *outUserPtr = win;
  return ncclSuccess;
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t, uint64_t* value) {
  if (!lives(comm) || value == nullptr) return refuse_dead("ncclCommMemStats");
  *value = 0;  // A communicator uses no device memory here.
  return ncclSuccess;
}
#endif

}  // extern "C"
