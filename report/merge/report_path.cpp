#include "report/merge/report_path.h"

#include <bit>
#include <type_traits>
#include <utility>

#include <xxhash.h>

namespace optrace {
namespace {

// The properties that distinguish the children of one path.
struct ReportPathKey {
  std::uint32_t parent;
  std::uint32_t thread;
  std::uint32_t what;
  CodePosition call;
  std::uint32_t native_line;
  std::uint32_t builtin;
  std::uint32_t through;
  std::uint32_t implementation;
  std::uint32_t boxed;
  std::uint32_t kind;  // ReportPath::kind times two, plus one for a tail call.
  bool operator==(const ReportPathKey&) const = default;
};

ReportPathKey key_of(const ReportPath& path) {
  return {.parent = path.parent,
          .thread = path.parent == kNone ? path.thread : 0,
          .what = path.what,
          .call = path.call,
          .native_line = path.native_line,
          .builtin = path.builtin,
          .through = path.through,
          .implementation = path.implementation,
          .boxed = path.boxed,
          .kind = static_cast<std::uint32_t>(path.kind) * 2 + (path.tail_call ? 1U : 0U)};
}

std::uint64_t hash_of(const ReportPathKey& key) {
  static_assert(std::has_unique_object_representations_v<ReportPathKey>);
  return XXH3_64bits(&key, sizeof key);
}
std::uint32_t tag_of(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash >> 32U);
}

}  // namespace

CodePosition position_of(const TracePath& path) {
  return {path.line, path.column, path.end_line, path.end_column};
}

std::uint32_t ReportPathSet::add(ReportPath path) {
  if (paths_.size() * 2 >= slots_.size()) grow(std::max<std::size_t>(1024, slots_.size() * 2));
  const ReportPathKey key = key_of(path);
  const std::uint64_t hash = hash_of(key);
  Slot* const slot = find(hash, [&](std::uint32_t place) { return key_of(paths_[place]) == key; });
  if (slot->place == kNone) {
    *slot = {.tag = tag_of(hash), .place = static_cast<std::uint32_t>(paths_.size())};
    paths_.push_back(std::move(path));
    return slot->place;
  }
  ReportPath& same = paths_[slot->place];
  same.calls =
      path.kind == PathKind::inlined ? std::max(same.calls, path.calls) : same.calls + path.calls;
  same.threads = std::max(same.threads, path.threads);
  same.also.push_back(path.traced);
  same.also.insert(same.also.end(), path.also.begin(), path.also.end());
  return slot->place;
}

void ReportPathSet::reserve(std::size_t count) {
  paths_.reserve(count);
  grow(std::bit_ceil(count * 2 + 1));
}

template <typename IsSame>
ReportPathSet::Slot* ReportPathSet::find(std::uint64_t hash, const IsSame& is_same) {
  for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    Slot& slot = slots_[at];
    if (slot.place == kNone || (slot.tag == tag_of(hash) && is_same(slot.place))) return &slot;
  }
}

void ReportPathSet::grow(std::size_t size) {
  if (size <= slots_.size()) return;
  slots_.assign(size, {});
  for (std::uint32_t place = 0; place < paths_.size(); ++place) {
    const std::uint64_t hash = hash_of(key_of(paths_[place]));
    *find(hash, [](std::uint32_t) { return false; }) = {.tag = tag_of(hash), .place = place};
  }
}

}  // namespace optrace
