#include "target/agent/python/hooked_builtins.h"

#include <cstring>

#include "target/agent/process/import_redirect.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/python/profiler_hooks.h"

namespace optrace::agent::profilers {
namespace {

// A builtin that sets profile functions without going through an import table. `definition` is null
// until its function is replaced by `replacement`.
struct HookedBuiltin {
  // The class whose method it is; empty: none; null: a function of the module sys.
  const char* type;
  const char* name;
  void* replacement;
  MethodDefinition* definition;  // Null until it is found.
  void* original;
};

using AnyBuiltin = void* (*)(void*, void*, void*, void*, void*, void*);

void* set_profile_builtin(void* self, void* argument);
void* set_profile_everywhere_builtin(void* self, void* argument);
template <int Index>
void* builtin_that_sets_profile(void* a, void* b, void* c, void* d, void* e, void* f);

HookedBuiltin hooked_builtins[] = {
    {nullptr, "setprofile", pointer_to(set_profile_builtin), nullptr, nullptr},
    {nullptr, "_setprofileallthreads", pointer_to(set_profile_everywhere_builtin), nullptr,
     nullptr},
    // cProfile, which is built into some interpreters.
    {"_lsprof.Profiler", "enable", pointer_to(builtin_that_sets_profile<2>), nullptr, nullptr},
    {"_lsprof.Profiler", "disable", pointer_to(builtin_that_sets_profile<3>), nullptr, nullptr},
    // torch.profiler, which walks over the thread states and may not set any function.
    {"", "_enable_profiler", pointer_to(builtin_that_sets_profile<4>), nullptr, nullptr},
    {"", "_disable_profiler", pointer_to(builtin_that_sets_profile<5>), nullptr, nullptr},
    {"", "_toggle_collection_dynamic", pointer_to(builtin_that_sets_profile<6>), nullptr, nullptr},
};

// Works for any argument types, because all arguments are in registers.
template <int Index>
void* builtin_that_sets_profile(void* a, void* b, void* c, void* d, void* e, void* f) {
  void* const thread = python->running_thread();
  const bool ours = has_ours(thread);
  void* const result =
      reinterpret_cast<AnyBuiltin>(hooked_builtins[Index].original)(a, b, c, d, e, f);
  if (any_shown) hide_profilers();
  if (ours && listening) install_profiler(thread, false);
  return result;
}

void* set_profile_builtin(void* self, void* argument) {
  void* const thread = python->running_thread();
  if (has_ours(thread) && argument == python->none) {
    if (set_profile_of(thread, nullptr, nullptr) != 0) return nullptr;
    python->take_reference(python->none);
    return python->none;
  }
  const bool ours = has_ours(thread);
  void* const result = reinterpret_cast<BuiltinOfOne>(hooked_builtins[0].original)(self, argument);
  if (ours && listening) install_profiler(thread, false);
  return result;
}

void* set_profile_everywhere_builtin(void* self, void* argument) {
  void* const result = reinterpret_cast<BuiltinOfOne>(hooked_builtins[1].original)(self, argument);
  install_everywhere();
  return result;
}

void hook(HookedBuiltin& builtin) {
  MethodDefinition* const definition = builtin.definition;
  // A table that was made read-only is left alone.
  if (definition != nullptr && definition->function != builtin.replacement &&
      is_writable(address_of(static_cast<const void*>(&definition->function)))) {
    builtin.original = definition->function;
    __atomic_store_n(&definition->function, builtin.replacement, __ATOMIC_RELEASE);
  }
}

}  // namespace

MethodDefinition* builtin_of_sys(const char* name) {
  void* const function = python->system_object(name);
  if (function == nullptr || python->type(function) != python->function_type) return nullptr;
  MethodDefinition* const definition = definition_of(*python, function);
  return definition->name != nullptr && std::strcmp(definition->name, name) == 0 ? definition
                                                                                 : nullptr;
}

void hook_builtins() {
  for (HookedBuiltin& builtin : hooked_builtins) {
    if (builtin.type == nullptr && builtin.definition == nullptr)
      builtin.definition = builtin_of_sys(builtin.name);
    hook(builtin);
  }
}

void restore_builtins() {
  for (const HookedBuiltin& builtin : hooked_builtins)
    if (builtin.definition != nullptr && builtin.definition->function == builtin.replacement)
      __atomic_store_n(&builtin.definition->function, builtin.original, __ATOMIC_RELEASE);
}

void hook_builtin(MethodDefinition* definition, const char* type) {
  for (HookedBuiltin& builtin : hooked_builtins) {
    if (builtin.type != nullptr && std::strcmp(builtin.type, type) == 0 &&
        definition->name != nullptr && std::strcmp(builtin.name, definition->name) == 0) {
      builtin.definition = definition;
      if (listening && slot_offset != 0) hook(builtin);
    }
  }
}

}  // namespace optrace::agent::profilers
