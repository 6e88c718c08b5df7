#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace optrace {

/// Where the functions of a report's frames begin, for a debugger.
struct FunctionEntries {
  struct Module {
    std::string path;      ///< As the traced process saw it.
    std::string build_id;  ///< Lower-case hex; empty if unknown.
  };
  struct Entry {
    std::uint32_t module = 0;   ///< Index into modules.
    std::uint64_t address = 0;  ///< As linked.
  };

  std::vector<Module> modules;
  std::unordered_map<std::uint32_t, Entry> entries;  ///< By Frame::number.
};

}  // namespace optrace
