#include "target/op_recorder/library_calls.h"

#include <cerrno>

#include <unistd.h>

#include "target/op_recorder/blas_calls.h"
#include "target/op_recorder/onednn_calls.h"

namespace optrace_ops {

namespace {

// Repeats the call of a function of the agent while another thread is in the agent.
template <typename Call>
int when_free(Call call) {
  constexpr int kMaxTries = 200;
  constexpr unsigned kMicroseconds = 500;
  int result = -EBUSY;
  for (int i = 0; result == -EBUSY && i < kMaxTries; ++i) {
    if (i != 0) usleep(kMicroseconds);
    result = call();
  }
  return result;
}

}  // namespace

int redirect(const optrace_op_functions& agent, const void* inside_torch,
             const optrace_agent_redirection* redirections, std::size_t count) {
  return when_free([&] {
    return agent.redirect(inside_torch, redirections, static_cast<std::uint32_t>(count));
  });
}

int restore(const optrace_op_functions& agent, const optrace_agent_redirection* redirections,
            std::size_t count) {
  return when_free([&] { return agent.restore(redirections, static_cast<std::uint32_t>(count)); });
}

void watch_library_calls(const optrace_op_functions& agent, const void* inside_torch) {
  watch_blas_calls(agent, inside_torch);
  watch_onednn_calls(agent, inside_torch);
}

void leave_library_calls(const optrace_op_functions& agent) {
  leave_onednn_calls();
  leave_blas_calls(agent);
}

}  // namespace optrace_ops
