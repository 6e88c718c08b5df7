#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <unistd.h>

#include "target/interface/recorder.h"

namespace optrace_ops {

/// The functions of the agent, for all sources of the recorder. They are null before use_agent().
inline optrace_recorder_functions agent{};

/// True once `agent` is set.
inline std::atomic<bool> has_agent{false};

/// Returns true if no function is missing.
inline bool is_complete(const optrace_recorder_functions* functions) {
  return functions != nullptr && functions->note != nullptr && functions->new_record != nullptr &&
         functions->keep_record != nullptr && functions->recording != nullptr &&
         functions->pause_thread != nullptr && functions->resume_thread != nullptr &&
         functions->redirect != nullptr && functions->redirect_loaded != nullptr &&
         functions->restore != nullptr && functions->start != nullptr && functions->stop != nullptr;
}

/// Sets the agent's functions, which are copied. Returns 0, or -EINVAL if one is missing. Nothing
/// may be calling the former ones.
inline int use_agent(const optrace_recorder_functions* functions) {
  if (!is_complete(functions)) return -EINVAL;
  agent = *functions;
  has_agent.store(true);
  return 0;
}

/// Returns the number of the agent's current recording, or 0 if there is none.
inline std::uint32_t current_recording() {
  return has_agent.load() ? agent.recording() : 0;
}

/// Calls a function of the agent again while another thread is in the agent, for up to a tenth of a
/// second. Returns its result, -EBUSY if the other thread stays there.
template <typename Call>
int when_free(Call call) {
  constexpr int kMaxTries = 200;
  constexpr unsigned kMicroseconds = 500;
  int result = -EBUSY;
  for (int i = 0; result == -EBUSY && i < kMaxTries; ++i) {
    if (i != 0) ::usleep(kMicroseconds);
    result = call();
  }
  return result;
}

/// Redirects imports of the module that contains the address `inside`; null: of all modules.
/// Returns the result of optrace_agent_redirect(), as soon as no other thread is in the agent.
inline int redirect(const void* inside, const optrace_agent_redirection* redirections,
                    std::size_t count) {
  return when_free(
      [&] { return agent.redirect(inside, redirections, static_cast<std::uint32_t>(count)); });
}

/// Undoes redirect(). Returns the result of optrace_agent_restore().
inline int restore(const optrace_agent_redirection* redirections, std::size_t count) {
  return when_free([&] { return agent.restore(redirections, static_cast<std::uint32_t>(count)); });
}

}  // namespace optrace_ops
