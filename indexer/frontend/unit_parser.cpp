#include "indexer/frontend/unit_parser.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>
#include <xxhash.h>

#include "indexer/frontend/worker_protocol.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

// Memory of a worker for most units, half of it a precompiled header, and for the largest units.
constexpr std::uint64_t kUsualMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kMinLimit = std::uint64_t{3} << 29;

std::uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size)
             : 4 * kUsualMemory;
}

int chosen_jobs(const ParseOptions& options) {
  if (options.jobs > 0) return options.jobs;
  const std::uint64_t fitting = std::max<std::uint64_t>(1, machine_memory() / kUsualMemory);
  return static_cast<int>(
      std::min<std::uint64_t>(std::max(1U, std::thread::hardware_concurrency()), fitting));
}

WorkerSetup with_limit(WorkerSetup setup, const ParseOptions& options) {
  const auto jobs = static_cast<std::uint64_t>(chosen_jobs(options));
  setup.memory_limit = options.worker_memory > 0
                           ? options.worker_memory
                           : std::max(kMinLimit, machine_memory() / 4 * 3 / jobs);
  return setup;
}

std::filesystem::path worker_program() {
  return library_folder() / "optrace-index-worker";
}

// One call of parse_units.
class Parsing {
 public:
  Parsing(const UnitsToParse& to_parse, const WorkFolder& work, FileHashes& hashes,
          const ParseOptions& options, ProgressReporter& progress)
      : to_parse_(to_parse),
        work_(work),
        hashes_(hashes),
        cache_(work.path() / "units", hashes),
        progress_(progress),
        driver_({.worker = worker_program(), .jobs = chosen_jobs(options)},
                with_limit(to_parse.setup, options)),
        common_(Digest()
                    .add(hashes.of(worker_program().string()))
                    .add(clang_version(worker_program()))
                    .add(to_line(to_parse.setup))
                    .value()) {}

  ParsedUnits finish() {
    for (std::size_t group = 0; group < to_parse_.groups.size(); ++group)
      groups_.push_back(look_up_header(group));
    look_up_units();
    // Reading a header again can change the identity of its units, so all units are looked up
    // again. If the result is the same as before an interruption, their entries are still valid.
    if (read_headers()) look_up_units();
    parse_waiting();
    for (auto& group : groups_)
      if (group.header) parsed_.headers.push_back(*std::move(group.header));
    return std::move(parsed_);
  }

 private:
  struct Group {
    std::uint64_t identity = 0;        // Identity of the group's header.
    std::optional<CachedUnit> header;  // The result of parsing the header.
    bool precompiled = false;          // The precompiled file exists.
    bool is_needed = false;            // A unit of the group has to be parsed.
    bool failed = false;
  };

  std::string header_name(std::size_t group) const {
    return "the headers of " + to_parse_.groups[group].name;
  }
  std::string precompiled_name(std::size_t group) const {
    return to_parse_.groups[group].name + ".pch";
  }
  std::filesystem::path precompiled_path(std::size_t group) const {
    return work_.path() / precompiled_name(group);
  }

  static std::uint64_t precompiled_key(const CachedUnit& header) {
    return Digest().add(header.digest()).add(header.times()).value();
  }

  std::uint64_t arguments_identity(std::size_t group) const {
    Digest digest;
    digest.add(common_);
    for (const auto& argument : to_parse_.groups[group].arguments) digest.add(argument);
    return digest.value();
  }

  Group look_up_header(std::size_t number) {
    Group group;
    const std::string& text = to_parse_.groups[number].precompiled_text;
    if (!text.empty()) {
      group.identity = Digest().add(arguments_identity(number)).add(text).value();
      group.header = cache_.find(header_name(number), group.identity);
      group.precompiled =
          group.header && work_.is_made(precompiled_name(number), precompiled_key(*group.header));
    }
    return group;
  }

  std::uint64_t unit_identity(std::size_t group) const {
    Digest digest;
    digest.add(arguments_identity(group));
    if (const auto& header = groups_[group].header) digest.add(header->digest());
    return digest.value();
  }

  // Fills parsed_.units and waiting_.
  void look_up_units() {
    waiting_.clear();
    parsed_.units.clear();
    for (auto& group : groups_) group.is_needed = false;
    for (std::size_t unit = 0; unit < to_parse_.units.size(); ++unit) {
      const std::size_t group = to_parse_.units[unit].group;
      auto kept = cache_.find(to_parse_.units[unit].name, unit_identity(group));
      if (kept) {
        parsed_.units.push_back(*std::move(kept));
      } else {
        waiting_.push_back(unit);
        groups_[group].is_needed = true;
      }
    }
  }

  // Returns true if there were any headers to read.
  bool read_headers() {
    std::vector<Unit> headers;
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < groups_.size(); ++number) {
      const ParseGroup& group = to_parse_.groups[number];
      if (group.precompiled_text.empty() || groups_[number].precompiled ||
          !groups_[number].is_needed) {
        continue;
      }
      const auto text = work_.path() / (group.name + ".h");
      write_file(text, group.precompiled_text);
      hashes_.trust(text.string());
      work_.remove_made(precompiled_name(number));
      groups_[number].header.reset();
      numbers.push_back(number);
      headers.push_back({text.string(), header_name(number), group.arguments, "",
                         precompiled_path(number).string()});
    }
    if (headers.empty()) return false;
    progress_.begin(
        fmt::format("Reading the headers shared by all units ({} groups)", headers.size()));
    auto failed = driver_.run(
        headers,
        [&](std::size_t header, const std::string& result) {
          Group& group = groups_[numbers[header]];
          group.header =
              cache_.keep(headers[header].name, group.identity, headers[header].source, result);
          work_.record_made(precompiled_name(numbers[header]), precompiled_key(*group.header));
          group.precompiled = true;
        },
        [&](std::size_t done, std::size_t total) { progress_.update(done, total); });
    std::move(failed.begin(), failed.end(), std::back_inserter(parsed_.failed));
    return true;
  }

  void parse_waiting() {
    if (waiting_.empty()) return;
    std::vector<Unit> units;
    for (const std::size_t number : waiting_) {
      const ParseUnit& unit = to_parse_.units[number];
      units.push_back({unit.source.string(), unit.name, to_parse_.groups[unit.group].arguments,
                       groups_[unit.group].precompiled ? precompiled_path(unit.group).string() : "",
                       ""});
    }
    progress_.begin(units.size() == to_parse_.units.size()
                        ? fmt::format("Indexing {} units", units.size())
                        : fmt::format("Indexing {} units; {} are unchanged", units.size(),
                                      to_parse_.units.size() - units.size()));
    auto failed = driver_.run(
        units,
        [&](std::size_t unit, const std::string& result) {
          parsed_.units.push_back(cache_.keep(units[unit].name,
                                              unit_identity(to_parse_.units[waiting_[unit]].group),
                                              units[unit].source, result));
          ++parsed_.parsed_now;
        },
        [&](std::size_t done, std::size_t total) { progress_.update(done, total); });
    std::move(failed.begin(), failed.end(), std::back_inserter(parsed_.failed));
  }

  const UnitsToParse& to_parse_;
  const WorkFolder& work_;
  FileHashes& hashes_;
  UnitCache cache_;
  ProgressReporter& progress_;
  Driver driver_;
  std::uint64_t common_;  // Digest of the inputs common to all units.
  std::vector<Group> groups_;
  std::vector<std::size_t> waiting_;
  ParsedUnits parsed_;
};

}  // namespace

ParsedUnits parse_units(const UnitsToParse& to_parse, const WorkFolder& work, FileHashes& hashes,
                        const ParseOptions& options, ProgressReporter& progress) {
  return Parsing(to_parse, work, hashes, options, progress).finish();
}

IndexContents merge_findings(std::span<const CachedUnit> units,
                             std::span<const CachedUnit> headers) {
  IndexContents contents;
  // Many units report the functions of the same header. A block is a function's line and the lines
  // of its calls; a block that was seen before is not parsed again.
  std::unordered_set<std::uint64_t> seen;
  std::string fresh;
  const auto take = [&](const CachedUnit& unit) {
    const std::string findings = unit.findings();
    std::string_view rest = findings;
    fresh.clear();
    while (!rest.empty()) {
      std::size_t size = 0;
      do {
        size = std::min(rest.find('\n', size), rest.size() - 1) + 1;
      } while (size < rest.size() && rest[size] == 'C');
      const std::string_view block = rest.substr(0, size);
      if (seen.insert(XXH3_64bits(block.data(), block.size())).second) fresh += block;
      rest.remove_prefix(size);
    }
    auto found = parse_findings(fresh);
    std::move(found.functions.begin(), found.functions.end(),
              std::back_inserter(contents.functions));
    std::move(found.registrations.begin(), found.registrations.end(),
              std::back_inserter(contents.registrations));
  };
  std::ranges::for_each(units, take);
  std::ranges::for_each(headers, take);
  return contents;
}

}  // namespace optrace
