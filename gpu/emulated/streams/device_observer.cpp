#include "gpu/emulated/streams/device_observer.h"

#include <atomic>

namespace optrace::emulated {
namespace {

std::atomic<const Observer*> looking{nullptr};
std::atomic<std::uint32_t> last_number{0};
// Number of the call that this thread is executing; 0: none.
thread_local std::uint32_t call_number = 0;

}  // namespace

void observe_with(const Observer* observer) {
  looking.store(observer, std::memory_order_release);
}

bool observed() {
  return looking.load(std::memory_order_relaxed) != nullptr;
}

ObservedCall::ObservedCall(const char* function)
    : observer_(looking.load(std::memory_order_acquire)), function_(function) {
  if (observer_ == nullptr || call_number != 0) return;
  outermost_ = true;
  call_number = ++last_number;
  observer_->call(function_, true, call_number);
}

ObservedCall::~ObservedCall() {
  if (!outermost_) return;
  observer_->call(function_, false, call_number);
  call_number = 0;
}

void ObservedCall::tell(const Work& work, std::uint64_t stream) const {
  if (observer_ != nullptr) observer_->work(work, call_number, stream);
}

}  // namespace optrace::emulated
