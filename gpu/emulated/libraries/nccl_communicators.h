#pragma once

// NCCL's communicators on emulated devices.

#include <string>
#include <unordered_map>
#include <unordered_set>

#include <nccl.h>

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

namespace optrace::emulated {

/// Returns true for an existing communicator. Others are rejected and not dereferenced.
bool lives(const ncclComm* communicator);

ncclComm_t make_communicator(int ranks, int rank, int device, const ncclUniqueId& id);

/// Records that a call is refused, and stores why for ncclGetLastError(). `communicator` may be
/// null.
ncclResult_t refuse(const char* function, ncclComm_t communicator, ncclResult_t result,
                    const std::string& why);

/// Refuses a call with a communicator that does not exist.
ncclResult_t refuse_dead(const char* function);

/// Returns one of a communicator's values. Generated functions call this.
template <typename Value>
ncclResult_t communicator_value(ncclComm_t communicator, Value ncclComm::* member, Value* value,
                                const char* function = __builtin_FUNCTION()) {
  if (!lives(communicator) || value == nullptr) return refuse_dead(function);
  *value = communicator->*member;
  return ncclSuccess;
}

/// Number of groups that the thread has started and not ended.
int group_depth();

/// Carries out the splits of communicators that the thread's group has delayed.
ncclResult_t carry_out_splits();

/// Removes them.
void drop_splits();

}  // namespace optrace::emulated
