#include "tracer/collect/pending_events.h"

#include <algorithm>
#include <span>

#include "tracer/collect/function_table.h"
#include "tracer/collect/transition_cache.h"

namespace optrace {

std::uint64_t PendingEvents::count(std::uint64_t until, bool last, std::uint64_t most) {
  const std::uint64_t before = counted_;
  const std::uint64_t end_count = most < kEverything - before ? before + most : kEverything;
  end_ = until;
  now_ = until == kEverything ? kEverything : clock_.nanoseconds(until);
  last_ = last;
  fetch_all();
  while (!pending_.empty() && counted_ < end_count && count_first(end_count)) {
  }
  pending_.clear();
  return counted_ - before;
}

void PendingEvents::fetch_all() {
  for (auto& [key, thread] : chunks_.threads()) {
    if (thread.chunks.empty()) continue;
    Pending next{.thread = &thread};
    if (fetch(next)) pending_.push_back(next);
  }
}

// Gets the thread's next event. Returns false if it has none before the end.
bool PendingEvents::fetch(Pending& pending) {
  pending.event.reset();
  ChunkReader::Thread& thread = *pending.thread;
  while (chunks_.next_event(thread, last_, pending.raw)) {
    if (pending.raw.ticks > end_) return false;
    if (!last_ && arena_.waits_for_module(pending.raw)) {
      end_ = pending.raw.ticks;  // Later events of other threads wait, too.
      now_ = clock_.nanoseconds(end_);
      return false;
    }
    pending.due = pending.time = clock_.nanoseconds(pending.raw.ticks);
    const bool recorded = pending.raw.ticks >= clock_.started().ticks;
    if (recorded && timeline_ == nullptr && !counter_.may_wait(thread.index)) return true;
    const Event* const event = recorded ? converted(pending) : nullptr;
    if (event != nullptr) {
      pending.due += counter_.delay(thread.index, *event);
      return true;
    }
    ++thread.at;
  }
  return false;
}

const Event* PendingEvents::converted(Pending& pending) {
  if (!pending.event) {
    Event event;
    if (!converter_.convert(pending.raw, event)) return nullptr;
    pending.event = event;
  }
  return &*pending.event;
}

// Counts the event that is due first, and those that follow it on its thread before another
// thread's is due. Returns false if it has to wait: other threads may still have earlier events.
bool PendingEvents::count_first(std::uint64_t end_count) {
  std::size_t first = 0;
  std::uint64_t second = kEverything;
  for (std::size_t i = 1; i < pending_.size(); ++i) {
    if (pending_[i].due < pending_[first].due) {
      second = std::min(second, pending_[first].due);
      first = i;
    } else {
      second = std::min(second, pending_[i].due);
    }
  }
  Pending& next = pending_[first];
  if (next.due > now_) return false;
  bool more = true;
  do {
    add(next);
    ++next.thread->at;
    add_known(*next.thread, std::min(second, now_));
    more = fetch(next);
  } while (more && next.due <= second && next.due <= now_ && counted_ < end_count);
  if (!more) pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(first));
  return true;
}

void PendingEvents::add(Pending& pending) {
  const recording::Event& raw = pending.raw;
  const std::uint32_t thread = pending.thread->index;
  if (timeline_ != nullptr || !counter_.add_known(thread, raw, pending.time)) {
    const Event* const event = converted(pending);
    if (event == nullptr) return;
    counter_.add(thread, *event, key_of(raw));
    if (timeline_ != nullptr && event->kind != EventKind::returned) timeline_->add(thread, *event);
  }
  last_time_ = std::max(last_time_, pending.time);
  ++counted_;
}

// Most events are known: counts those that follow and are not later than `latest`.
void PendingEvents::add_known(ChunkReader::Thread& thread, std::uint64_t latest) {
  if (timeline_ != nullptr || thread.chunks.empty()) return;
  const std::span slots = chunks_.next_slots(thread);
  const std::size_t added = counter_.add_known(thread.index, slots, clock_, latest);
  if (added == 0) return;
  const std::uint64_t ticks = load_shared(slots[added - 1].ticks);
  last_time_ = std::max(last_time_, clock_.nanoseconds(ticks));
  thread.at += static_cast<std::uint32_t>(added);
  counted_ += added;
}

}  // namespace optrace
