// Counts the ops that PyTorch announces on all threads, and the dtypes of their tensors.
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include <ATen/record_function.h>

namespace {

std::mutex mutex;
bool counting = false;
std::map<std::string, unsigned long>& counts() {
  static auto* const all = new std::map<std::string, unsigned long>;  // Outlives every thread.
  return *all;
}

void count_dtype(const at::Tensor& tensor) {
  if (tensor.defined())
    ++counts()[std::string(tensor.dim() == 0 ? "scalar " : "dtype ") +
               c10::toString(tensor.scalar_type())];
}

void count_dtypes(const c10::IValue& value) {
  if (value.isTensor()) count_dtype(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) count_dtype(tensor);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  const auto op = function.operator_name();
  const std::lock_guard lock(mutex);
  if (!op || !counting) return nullptr;
  ++counts()[op->name];
  for (const c10::IValue& input : function.inputs()) count_dtypes(input);
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  const std::lock_guard lock(mutex);
  if (!function.operator_name() || !counting) return;
  for (const c10::IValue& output : function.outputs()) count_dtypes(output);
}

}  // namespace

extern "C" void account_start() {
  at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

extern "C" void account_count(bool on) {
  const std::lock_guard lock(mutex);
  counting = on;
}

extern "C" void account_clear() {
  const std::lock_guard lock(mutex);
  counts().clear();
}

extern "C" void account_write(const char* path) {
  const std::lock_guard lock(mutex);
  if (FILE* const file = std::fopen(path, "a")) {
    for (const auto& [name, calls] : counts()) std::fprintf(file, "%s\t%lu\n", name.c_str(), calls);
    std::fclose(file);
  }
  counts().clear();
}
