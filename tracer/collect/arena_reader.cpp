#include "tracer/collect/arena_reader.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <mutex>
#include <stop_token>
#include <thread>

namespace optrace {
namespace {

// Signals to the traced process that its reader is alive, during a long operation.
class HeartbeatThread {
 public:
  explicit HeartbeatThread(recording::RegionHeader& header)
      : thread_([&header](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any stopped;
          constexpr std::chrono::milliseconds kPause{100};
          while (!stopped.wait_for(lock, stop, kPause, [&stop] { return stop.stop_requested(); }))
            std::atomic_ref(header.heartbeat).fetch_add(1);
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

void ArenaReader::read(bool has_events) {
  // Read first: the sections of these modules are then complete.
  const std::uint32_t reported = load_shared(region_.header().modules_reported);
  const std::uint32_t put = load_shared(region_.header().modules_put);
  if (put != std::exchange(modules_read_, put)) waits_since_.reset();
  // If true, the sections that the agent writes at the start are complete; the modules are the
  // last.
  const bool begun =
      load_shared(region_.header().recording) != 0 || load_shared(region_.header().stop_ticks) != 0;
  const std::span<std::byte> arena = region_.arena();
  const std::uint64_t used =
      std::min<std::uint64_t>(load_shared(region_.header().arena_used), arena.size());
  while (arena_read_ + sizeof(recording::SectionHeader) <= used) {
    const auto& shared =
        *reinterpret_cast<const recording::SectionHeader*>(arena.data() + arena_read_);
    const recording::SectionKind kind = load_shared(shared.kind);
    if (static_cast<std::uint32_t>(kind) == 0) break;  // Being written.
    const std::uint64_t size = shared.size;
    const std::uint64_t room = used - arena_read_ - sizeof(recording::SectionHeader);
    if (size > room) refuse_region("a section is larger than the memory that contains it");
    // A copy, which can't change after it was checked.
    const std::byte* const content = arena.data() + arena_read_ + sizeof(recording::SectionHeader);
    const std::vector<std::byte> bytes(content, content + size);
    read_section(kind, bytes);
    if (kind == recording::SectionKind::probes)
      ranges_.emplace_back(texts_.probes.size() - 1, arena_read_);
    if (kind == recording::SectionKind::python_function) python_functions_.push_back(arena_read_);
    arena_read_ += sizeof(recording::SectionHeader) + (size + 7) / 8 * 8;
  }
  // A plan's section precedes its module's.
  for (; begun && probes_added_ < texts_.probes.size(); ++probes_added_) {
    const PlacedProbes& placed = texts_.probes[probes_added_];
    const bool late = has_events && !plans_of_loaded_.contains(placed.plan_path);
    table_.add_probes(placed, session_.plan_of(placed), late);
  }
  if (begun) plan_for_loaded(reported);
}

void ArenaReader::plan_for_loaded(std::uint32_t reported) {
  if (!modules_known_) modules_known_ = reported == 0 ? texts_.modules.size() : 0;
  if (reported == modules_reported_) return;
  modules_reported_ = reported;
  const HeartbeatThread heartbeat(region_.header());
  for (; *modules_known_ < texts_.modules.size(); ++*modules_known_) {
    const LoadedModule& module =
        *std::next(texts_.modules.begin(), static_cast<std::ptrdiff_t>(*modules_known_));
    std::filesystem::path plan = session_.plan_for_loaded(module);
    if (plan.empty()) continue;
    plans_of_loaded_.insert(plan.string());
    plans_to_place_.push_back(std::move(plan));
  }
}

void ArenaReader::request_plan() {
  recording::RegionHeader& shared = region_.header();
  if (load_shared(shared.plan_done) != plans_requested_) return;
  if (plans_to_place_.empty()) {
    std::atomic_ref(shared.modules_seen).store(modules_reported_);
    return;
  }
  const std::string path = plans_to_place_.front().string();
  plans_to_place_.erase(plans_to_place_.begin());
  if (path.size() >= recording::kMaxPlanPathLength) return;
  std::memcpy(shared.plan_path, path.c_str(), path.size() + 1);
  std::atomic_ref(shared.plan_requested).store(++plans_requested_);
}

void ArenaReader::read_section(recording::SectionKind kind, std::span<const std::byte> bytes) {
  if (kind == recording::SectionKind::initial_stack) {
    add_initial_stack(bytes);
    return;
  }
  if (!texts_.read(kind, bytes)) refuse_region("a section is of an unknown kind");
  if (kind == recording::SectionKind::probes) check_last_probes();
}

void ArenaReader::check_last_probes() const {
  const PlacedProbes& placed = texts_.probes.back();
  const std::uint64_t end = std::uint64_t{placed.first_id} + placed.count;
  if (end > recording::kFirstPythonEvent) refuse_region("its probes' numbers");
  for (const PlacedProbes& other : texts_.probes)
    if (&other != &placed && placed.first_id < std::uint64_t{other.first_id} + other.count &&
        other.first_id < end)
      refuse_region("its probes overlap");
}

void ArenaReader::add_initial_stack(std::span<const std::byte> bytes) {
  recording::InitialStack stack{};
  if (bytes.size() < sizeof stack) refuse_region("an initial stack is malformed");
  std::memcpy(&stack, bytes.data(), sizeof stack);
  bytes = bytes.subspan(sizeof stack);
  if (bytes.size() % sizeof(recording::InitialFrame) != 0 ||
      stack.count != bytes.size() / sizeof(recording::InitialFrame)) {
    refuse_region("an initial stack is malformed");
  }
  std::vector<recording::InitialFrame>& frames =
      initial_stacks_[static_cast<std::uint32_t>(stack.thread)];
  frames.resize(stack.count);
  if (!frames.empty()) std::memcpy(frames.data(), bytes.data(), bytes.size());
}

std::vector<recording::InitialFrame> ArenaReader::take_initial_stack(std::uint32_t thread) {
  const auto found = initial_stacks_.extract(thread);
  return found.empty() ? std::vector<recording::InitialFrame>() : std::move(found.mapped());
}

bool ArenaReader::waits_for_module(const recording::Event& raw) {
  constexpr std::chrono::seconds kTimeout{2};
  if (load_shared(region_.header().modules_met) == modules_read_) return false;
  const bool of_caller = recording::is_caller(raw.id);
  if (!of_caller && raw.id >= recording::kFirstPythonEvent) return false;
  const auto is_unknown = [&](std::uint64_t address) {
    return address != 0 && texts_.modules.at(address - 1) == nullptr;
  };
  if (!is_unknown(raw.return_address) &&
      !(of_caller && is_unknown(recording::address_in_caller(raw.id, raw.line))))
    return false;
  const auto now = std::chrono::steady_clock::now();
  if (!waits_since_) waits_since_ = now;
  return now - *waits_since_ < kTimeout;
}

ArenaReader::ProbeCounts ArenaReader::probe_counts() const {
  ProbeCounts counts;
  for (const auto& [index, at] : ranges_) {
    recording::ProbeRange range{};
    std::memcpy(&range, region_.arena().data() + at + sizeof(recording::SectionHeader),
                sizeof range);
    const std::uint32_t count = texts_.probes[index].count;
    const std::uint32_t placed = std::min(range.placed, count);
    counts.placed += placed;
    counts.failed += count - placed;
  }
  return counts;
}

std::vector<std::uint32_t> ArenaReader::python_calls() const {
  std::vector<std::uint32_t> calls;
  calls.reserve(python_functions_.size());
  for (const std::uint64_t at : python_functions_) {
    recording::PythonFunction function{};
    std::memcpy(&function, region_.arena().data() + at + sizeof(recording::SectionHeader),
                sizeof function);
    calls.push_back(function.calls);
  }
  return calls;
}

}  // namespace optrace
