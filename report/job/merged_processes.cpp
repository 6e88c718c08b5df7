#include "report/job/merged_processes.h"

#include <array>
#include <tuple>

#include <xxhash.h>

namespace optrace {

bool comes_before(const MergedProcess& left, const MergedProcess& right) {
  const auto key = [](const MergedProcess& process) {
    return std::tuple(!process.rank, process.rank.value_or(0), !process.id, process.id.value_or(0),
                      process.digest);
  };
  return key(left) < key(right);
}

MergedProcess process_of(const Trace& trace) {
  MergedProcess process;
  process.rank = trace.meta.process.rank;
  process.id = trace.meta.process.id;
  std::array<std::uint64_t, 1024> contents;
  std::size_t filled = 0;
  const auto digest = [&](std::uint64_t value) {
    contents[filled++] = value;
    if (filled < contents.size()) return;
    process.digest = XXH3_64bits_withSeed(contents.data(), sizeof contents, process.digest);
    filled = 0;
  };
  for (const TracePath& path : trace.paths) {
    digest(path.calls << 32U | path.what);
    digest(path.total_time);
  }
  for (const ThreadRecord& thread : trace.threads) {
    if (thread.id != 0) ++process.threads;
    digest(thread.id);
    digest(thread.lost);
  }
  process.digest =
      XXH3_64bits_withSeed(contents.data(), filled * sizeof contents[0], process.digest);
  return process;
}

}  // namespace optrace
