#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "target/recorder/agent_functions.h"
#include "target/recorder/fingerprint.h"

namespace optrace_ops {

/// The records of the current recording, by their fingerprints. The agent has their texts. Any
/// number of threads may use it at once.
class RecordStore {
 public:
  struct Record {
    std::uint32_t id = 0;  ///< 0: there was no room for it.
    bool is_new = false;
  };

  /// Returns the record with this fingerprint. For a new fingerprint, the text that `write` returns
  /// becomes the record; it is called under the lock. The records of another recording are removed,
  /// because their ids are not valid in this one.
  template <typename Write>
  Record record_of(std::uint32_t recording, const Fingerprint& fingerprint, Write write) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (recording_ != recording) restart(recording);
    const auto found = ids_.find(fingerprint);
    if (found != ids_.end()) return {found->second, false};
    // Once a record found no room, the others are not even written.
    if (full_ || ids_.size() >= kMaxRecords) return {};
    const std::string& text = write();
    full_ = text_size_ + text.size() > kMaxText;
    if (full_) return {};
    const std::uint32_t id = agent.new_record();
    full_ = agent.keep_record(id, text.data(), text.size()) != 0;
    if (full_) return {};
    ids_.emplace(fingerprint, id);
    text_size_ += text.size();
    return {id, true};
  }

  /// For forks (fork_lock.h).
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // Beyond these limits, calls are still recorded, but without a description.
  static constexpr std::size_t kMaxRecords = 65536;
  static constexpr std::size_t kMaxText = std::size_t{32} << 20U;  // In bytes, for all together.

  struct Hash {
    std::size_t operator()(const Fingerprint& fingerprint) const { return fingerprint.low(); }
  };

  void restart(std::uint32_t recording) {
    ids_.clear();
    text_size_ = 0;
    full_ = false;
    recording_ = recording;
  }

  std::mutex mutex_;
  std::uint32_t recording_ = 0;
  std::unordered_map<Fingerprint, std::uint32_t, Hash> ids_;
  std::size_t text_size_ = 0;
  bool full_ = false;
};

}  // namespace optrace_ops
