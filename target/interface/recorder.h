#pragma once

// C interface between the agent and the recorders, which are libraries that add to a recording: of
// ops, of what devices do, of calls of CUDA's libraries. A recorder is built for the installed
// PyTorch or CUDA, and the agent is not. Neither is linked with the other: the recorder calls the
// agent through these pointers.

#include <cstdint>

#include "target/interface/agent.h"

extern "C" {

/// The functions of agent.h that recorders call.
struct optrace_recorder_functions {
  decltype(&optrace_agent_note) note;
  decltype(&optrace_agent_new_record) new_record;
  decltype(&optrace_agent_keep_record) keep_record;
  decltype(&optrace_agent_recording) recording;
  decltype(&optrace_agent_pause_thread) pause_thread;
  decltype(&optrace_agent_resume_thread) resume_thread;
  decltype(&optrace_agent_redirect) redirect;
  decltype(&optrace_agent_redirect_loaded) redirect_loaded;
  decltype(&optrace_agent_restore) restore;
  decltype(&optrace_agent_start) start;
  decltype(&optrace_agent_stop) stop;
};

/// Returns the agent's functions, which stay valid as long as the process lives.
OPTRACE_AGENT_EXPORT const struct optrace_recorder_functions* optrace_agent_recorder_functions(
    void);

}  // extern "C"
