#pragma once

#include <stdexcept>
#include <string>

#include "platform/exported.h"

namespace optrace {

/// The exit status of the command. The numbers are fixed, because other programs test for them.
enum class ExitStatus : int {
  done = 0,
  differs = 1,        ///< A check failed, or two things that were compared differ.
  usage = 2,          ///< Wrong usage: the command line or an input file is at fault.
  failed = 3,         ///< The tracing (or indexing) itself failed.
  interrupted = 130,  ///< Ctrl-C, as a shell reports it; SIGTERM gives 143, SIGHUP 129.
};

/// A shell's exit status for a program that signal N ended is this number + N.
inline constexpr int kSignalled = 128;

/// The only exception that crosses the boundaries between optrace's parts. It contains the problem
/// and the remedy, so that the command can print both, whatever their origin.
class OPTRACE_EXPORTED Error : public std::runtime_error {
 public:
  /// `what_was_wrong` contains the offending value; `remedy` contains what was expected and what to
  /// do. Both are sentences without a trailing newline.
  Error(ExitStatus status, const std::string& what_was_wrong, std::string remedy);
  /// Not inline: liboptrace.so and the Python module, which both throw Errors, each have a
  /// libstdc++, and a base class must be destroyed by the one that made it.
  ~Error() override;
  Error(const Error&) = default;
  Error(Error&&) = default;
  Error& operator=(const Error&) = default;
  Error& operator=(Error&&) = default;

  ExitStatus status() const noexcept { return status_; }
  const std::string& remedy() const noexcept { return remedy_; }

 private:
  ExitStatus status_;
  std::string remedy_;
};

/// Describes an errno value: "No such file or directory (errno 2)".
std::string describe_errno(int error_number);

}  // namespace optrace
