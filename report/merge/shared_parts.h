#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>

#include "report/merge/field_hash.h"
#include "report/model/frame.h"

namespace optrace {

/// Finds equal parts of frames, so that one value is kept for all. A program has hundreds of
/// thousands of frames, and few different details and sources, which would take most of a report's
/// memory.
class SharedParts {
 public:
  // Each returns the first of all equal values that were given.
  Shared<Detail> detail(Shared<Detail> detail) {
    if (!detail.has_value() || kept_.contains(&*detail)) return detail;
    const Shared<Detail>& first = *details_.insert(std::move(detail)).first;
    kept_.insert(&*first);
    return first;
  }
  Shared<FrameSource> source(Shared<FrameSource> source) {
    return source ? *sources_.insert(std::move(source)).first : Shared<FrameSource>();
  }

 private:
  struct Hash {
    std::size_t operator()(const Shared<Detail>& detail) const { return FieldHash::of(*detail); }
    std::size_t operator()(const Shared<FrameSource>& source) const {
      const std::size_t lines = source->line * 31U + source->call_line.value_or(0);
      return std::hash<std::string>()(source->file) * 31U + lines;
    }
  };
  struct IsEqual {
    template <class Part>
    bool operator()(const Part& one, const Part& other) const {
      return *one == *other;
    }
  };

  std::unordered_set<Shared<Detail>, Hash, IsEqual> details_;
  std::unordered_set<const Detail*> kept_;  // Those in details_.
  std::unordered_set<Shared<FrameSource>, Hash, IsEqual> sources_;
};

}  // namespace optrace
