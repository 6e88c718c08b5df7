#pragma once

#include <stdexcept>

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include "target/interface/agent.h"

namespace optrace::test {

template <typename Function>
Function* symbol(void* library, const char* name) {
  void* const address = dlsym(library, name);
  if (address == nullptr) {
    throw std::runtime_error(name);
  }
  return reinterpret_cast<Function*>(address);
}

inline void* open_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  return library;
}

// The agent, loaded at run time as its users load it. It records callers only if a test asks for
// them.
struct Agent {
  Agent() { callers(0); }

  void* library = open_library(OPTRACE_AGENT_LIBRARY);
  decltype(optrace_agent_place)* place =
      symbol<decltype(optrace_agent_place)>(library, "optrace_agent_place");
  decltype(optrace_agent_start)* start =
      symbol<decltype(optrace_agent_start)>(library, "optrace_agent_start");
  decltype(optrace_agent_stop)* stop =
      symbol<decltype(optrace_agent_stop)>(library, "optrace_agent_stop");
  decltype(optrace_agent_python)* python =
      symbol<decltype(optrace_agent_python)>(library, "optrace_agent_python");
  decltype(optrace_agent_remove)* remove =
      symbol<decltype(optrace_agent_remove)>(library, "optrace_agent_remove");
  decltype(optrace_agent_enter)* enter =
      symbol<decltype(optrace_agent_enter)>(library, "optrace_agent_enter");
  decltype(optrace_agent_leave)* leave =
      symbol<decltype(optrace_agent_leave)>(library, "optrace_agent_leave");
  decltype(optrace_agent_share)* share =
      symbol<decltype(optrace_agent_share)>(library, "optrace_agent_share");
  decltype(optrace_agent_note)* note =
      symbol<decltype(optrace_agent_note)>(library, "optrace_agent_note");
  decltype(optrace_agent_keep_record)* keep_record =
      symbol<decltype(optrace_agent_keep_record)>(library, "optrace_agent_keep_record");
  decltype(optrace_agent_pause_thread)* pause_thread =
      symbol<decltype(optrace_agent_pause_thread)>(library, "optrace_agent_pause_thread");
  decltype(optrace_agent_resume_thread)* resume_thread =
      symbol<decltype(optrace_agent_resume_thread)>(library, "optrace_agent_resume_thread");
  decltype(optrace_agent_serve)* serve =
      symbol<decltype(optrace_agent_serve)>(library, "optrace_agent_serve");
  decltype(optrace_agent_read_counters)* read_counters =
      symbol<decltype(optrace_agent_read_counters)>(library, "optrace_agent_read_counters");
  decltype(optrace_agent_redirect)* redirect =
      symbol<decltype(optrace_agent_redirect)>(library, "optrace_agent_redirect");
  decltype(optrace_agent_redirect_loaded)* redirect_loaded =
      symbol<decltype(optrace_agent_redirect_loaded)>(library, "optrace_agent_redirect_loaded");
  decltype(optrace_agent_restore)* restore =
      symbol<decltype(optrace_agent_restore)>(library, "optrace_agent_restore");

  decltype(optrace_agent_return_limit)* return_limit =
      symbol<decltype(optrace_agent_return_limit)>(library, "optrace_agent_return_limit");
  decltype(optrace_agent_callers)* callers =
      symbol<decltype(optrace_agent_callers)>(library, "optrace_agent_callers");

  optrace_agent_counters counters() const {
    optrace_agent_counters values{};
    REQUIRE(read_counters(&values) == 0);
    return values;
  }
};

inline const Agent& agent() {
  static const Agent loaded;
  return loaded;
}

}  // namespace optrace::test
