// NCCL on emulated devices: ncclCommSplit.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/arguments/call_values.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/libraries/nccl_communicators.h"

namespace optrace::emulated {
namespace {

struct PendingSplit {
  ncclComm_t parent;
  int color;
  int key;
  ncclComm_t* created;
};

/// Splits delayed by ncclGroupStart() on this thread.
thread_local std::vector<PendingSplit> pending_splits;

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
    constexpr auto kTimeout = 300s;
    if (memory_ == nullptr)
      return refuse("ncclCommSplit", split_.parent, ncclSystemError,
                    "no shared memory: " + std::string(std::strerror(errno)));
    const auto start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < ranks_; ++rank) {
      while (entry(rank).present.load(std::memory_order_acquire) == 0) {
        if (std::chrono::steady_clock::now() - start > kTimeout)
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

}  // namespace

ncclResult_t carry_out_splits() {
  return carry_out(std::exchange(pending_splits, {}));
}

void drop_splits() {
  pending_splits.clear();
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t*) {
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
  pending_splits.push_back({comm, color, key, newcomm});
  return group_depth() > 0 ? ncclSuccess : carry_out_splits();
}

}  // extern "C"
