#include "src/commands/commands.h"

#include <string_view>
#include <vector>

#include "src/commands/command.h"

namespace optrace {
namespace {

constexpr std::string_view kOptraceExamples = R"(Examples:
  optrace conv2d                          trace torch.nn.Conv2d
  optrace linear --backward               and its backward pass
  optrace aten::add.Tensor --format json  output for programs
  optrace softmax --trace softmax.trace   save the trace; later:
  optrace report softmax.trace
  optrace run train.py --epochs 1         trace a whole program
  optrace attach 4711 --duration 5        trace a running process

Exit status: 0 success, 1 a comparison found differences, a rule does not hold or something
essential is missing, 2 wrong usage, 3 tracing failed, 130 interrupted.)";

constexpr std::string_view kAttachExamples =
    R"(The process must belong to this user and have imported torch. It keeps running. Without
--count, --duration or --until-op, Ctrl-C ends the trace, never the process.
  optrace attach 4711 --duration 5
  optrace attach 4711 --count 100 --format json -o report.json
  optrace attach 4711 --ops 'aten::conv*' --count 10
  optrace attach $(pgrep -f train.py) --until-op 'aten::*_backward')";

constexpr std::string_view kLocateExamples = R"(Examples:
  optrace locate nn.Linear                    Python classes, functions, methods
  optrace locate torch.matmul                 builtins: binding, yaml line, kernels
  optrace locate aten::add.Tensor             ops
  optrace locate at::native::convolution      C++, by name or mangled symbol
  optrace locate add_stub                     a stub and its kernels for each CPU
  optrace locate cudnnBackendExecute          where PyTorch calls a library
  optrace locate at::native::convolution --callers --depth 2    what calls it
  optrace locate nn.Linear --source           the text of the definition
  optrace locate nn.Linear --open             in $VISUAL or $EDITOR, at the line
  optrace locate - < names > answers          one name per line in, one JSON object per line out)";

constexpr std::string_view kExplainExamples = R"(Examples:
  optrace explain conv2d              schema, dispatch table, derivative, call paths
  optrace explain Tensor.add_         any spelling works
  optrace explain add --overload out  an overload other than the first
  optrace explain mm --device cuda    only one device
  optrace explain conv2d --why-not cudnn                  what decides about a backend
  optrace explain conv2d --why-not mkldnn --call 'conv2d --dtype float64'
  optrace explain - < names > answers   one op per line in, one JSON object per line out
  optrace explain --compiled train.py --epochs 1    what torch.compile makes of a program
  optrace explain --compiled --dry-run=sm_80 -m my_package.train
With --compiled, the program is SCRIPT, -m MODULE or -c CODE, as for python. It runs, without probes, and its
own output goes to standard error. Exit status: 3 if it fails, 130 after Ctrl-C.)";

constexpr std::string_view kLayersExamples = R"(Examples:
  optrace layers                   all layers, from torch.* down to CUDA
  optrace layers dispatcher        one layer
  optrace layers --format svg -o layers.svg   a picture of the map
  optrace layers --format json     for programs)";

constexpr std::string_view kReportExamples = R"(Examples:
  optrace conv2d --trace conv2d.trace       save a trace
  optrace report conv2d.trace               show it
  optrace report conv2d.trace --all         with the frames that are folded away
  optrace report conv2d.trace -i            browse it in the terminal
  optrace report conv2d.trace --format json -o conv2d.json
  optrace report train.trace --under train.py:17 --format text     what a line calls
  optrace report job.rank0.trace job.rank1.trace     processes of one job, with their differences)";

constexpr std::string_view kMergeExamples = R"(Examples:
  optrace merge job.rank*.trace -o job.trace     one trace of all ranks
  optrace report job.trace                       its tree, with the ranks that differ
  optrace merge node0.trace node1.trace -o job.trace     merged traces can be merged again

The result does not depend on the order or the grouping of the traces.)";

constexpr std::string_view kCompareExamples =
    R"(A and B are each a trace (--trace FILE), a report (--format json), or a command in quotes: the
arguments of `optrace`, either an op with its options or `run` and a program. No shell expands them.
  optrace compare conv2d 'conv2d --dtype float16'
  optrace compare 'conv2d --dry-run=sm_80' 'conv2d --dry-run=sm_90'
  optrace compare 'run train.py' 'run --dry-run train.py --fast' --format json
  optrace compare before.trace after.json -o differences.txt
  optrace compare before.trace after.trace --format html -o differences.html
  optrace compare 'run train.py' --baseline train.json --update      create or update it
  optrace compare 'run train.py' --baseline train.json               in CI
Exit status: 0 if there is no difference or a baseline was updated, 1 if there is one, 2 if that is
unknown because one of the two is incomplete.)";

constexpr std::string_view kCheckExamples = R"(Examples:
  optrace run --trace t.trace train.py
  optrace check t.trace --expect 'never calls *slow_conv*' --expect 'copies <= 12'
  optrace check 'conv2d --device cuda' --expect 'conv2d@cuda uses cudnn'
  optrace check t.trace --expect rules.yaml --format junit -o optrace.xml
Rules: calls NAME [<= N], never calls NAME, OP[@cpu|@cuda] [never] uses BACKEND,
ops|kernels|launches|library calls|copies|synchronisations|recompiles|... <= N, no graph break,
no fallback to CPU, no implicit copy, no failure, no kernel of dtype T, no frame without source,
no finding [NAME] (`optrace findings` lists them).
Exit status: 0 if all rules hold, 1 if one does not, 2 if one can't be decided.)";

constexpr std::string_view kFindingsExamples = R"(Examples:
  optrace findings                 the rules
  optrace run --trace t.trace train.py
  optrace findings t.trace         what they find, the most expensive first
  optrace findings t.trace --ignore layout-copy --format json)";

constexpr std::string_view kSourceExamples = R"(Examples:
  optrace source list              all indexes, and their versions of torch
  optrace source fetch             download and index the source of the installed torch
  optrace source add ~/pytorch     index a checkout)";

constexpr std::string_view kSourceAddExamples = R"(Examples:
  optrace source add ~/pytorch                     index a checkout
  optrace source add --wheel                       index the installed torch, without source
  optrace source add ~/pytorch --python .venv/bin/python
  optrace source add ~/pytorch --only '*/Convolution.cpp' -o conv.index
  optrace source add ~/my_extension --project      a C++ extension with ops of its own
A source tree needs the torch wheel of the same version, whose generated headers are read.
All need PyYAML.)";

constexpr std::string_view kSourceFetchExamples = R"(Examples:
  optrace source fetch                             from PyTorch's repository
  optrace source fetch --remote ~/mirror/pytorch.git --folder ~/pytorch-source
Only the commit that torch was built from is fetched, without history, and only the folders
that contain its C++ code.)";

constexpr std::string_view kSourceListExamples = R"(Example:
  optrace source list)";

constexpr std::string_view kSourceCoverageExamples = R"(Examples:
  optrace source coverage                       the index for the installed torch
  optrace source coverage --fail-under 99.5     for CI: exit status 1 if any share is less
  optrace source coverage --index my.index --all)";

constexpr std::string_view kSourceCompareExamples =
    R"(A and B are each a version that has an index, a Python or a virtual environment, an index file,
or a source tree.
  optrace source compare 2.6.0 2.15.0
  optrace source compare old/.venv new/.venv --ops 'conv*' --ops 'aten::_scaled_*'
  optrace source compare 2.6.0 2.15.0 --key CUDA --key 'SparseCsr*'
Exit status: 0 if there is no difference, 1 if there is one, 2 if that is unknown because an index
lacks a part.)";

constexpr std::string_view kCacheExamples = R"(Examples:
  optrace cache list                       what is kept, and its size
  optrace cache clean --older-than 30d     remove what has not changed for 30 days
Everything in the cache is made again when it is needed, except the traces of the last
programs. Indexes are no part of it: `optrace source list` shows them.)";

constexpr std::string_view kCacheListExamples = R"(Example:
  optrace cache list --older-than 2w)";

constexpr std::string_view kCacheCleanExamples = R"(Examples:
  optrace cache clean
  optrace cache clean --older-than 30d
What another optrace is using stays. Links are not followed, and files that optrace did not
make are left alone.)";

constexpr std::string_view kDoctorExamples = R"(Examples:
  optrace doctor
  optrace doctor --python .venv/bin/python --format json
Places and removes probes, traces an op, and attaches to a process of its own, which takes
about ten seconds. Exit status: 1 if something essential is missing.)";

constexpr std::string_view kLspExamples =
    R"(A language server on standard input and output, which an editor starts. In Python files,
torch.matmul, F.conv2d and x.add_ have their binding, kernels by dispatch key, and
derivative. docs/editors.md has the set-up for VS Code, neovim and emacs.)";

constexpr std::string_view kMcpExamples =
    R"(A server of the Model Context Protocol on standard input and output, which an assistant
starts. Needs the package mcp: pip install 'optrace[mcp]'. docs/editors.md has the set-up.
The tool trace_op runs the Python code that the assistant gives.)";

constexpr std::string_view kCompletionsExamples =
    R"(An installed optrace has the scripts where the shells look for them. Otherwise:
  source <(optrace completions bash)                     in ~/.bashrc
  source <(optrace completions zsh)                      in ~/.zshrc, after compinit
  optrace completions fish | source                      in ~/.config/fish/config.fish)";

constexpr std::string_view kRunExamples =
    R"(The program is SCRIPT, -m MODULE or -c CODE, as for python; its own arguments follow:
  optrace run train.py --epochs 1
  optrace run --ops 'aten::conv*' --count 10 -m my_package.train
  optrace run --from-step 100 --count 2 train.py
  optrace run --trace t.trace -o report.txt -c 'import torch; torch.ones(3).sum()'
  optrace run --children --trace job.trace -m torch.distributed.run --nproc-per-node 2 job.py
Its input and output are left alone: the report goes to standard error after the program has ended,
or to -o FILE. Exit status: the program's own; 128 + N if signal N killed it; 3 if nothing of it was
traced, or if it succeeded and the trace or report could not be written.)";

constexpr std::string_view kTensorsExamples =
    R"(The program is SCRIPT, -m MODULE or -c CODE, as for python; its own arguments follow:
  optrace tensors -c 'import torch; x = torch.rand(3, 4); y = x.t().contiguous().view(-1)' --name y
  optrace tensors train.py
  optrace tensors --name forward.x train.py --epochs 1
--name is also accepted directly after the program. The program's standard output goes to
standard error. Exit status: 3 if the program fails, 130 after Ctrl-C.)";

std::vector<CommandRow> source_commands() {
  return {
      {"add",
       "Index a PyTorch source tree or a torch wheel, so that C++ frames have file and "
       "line",
       kSourceAddExamples, source_add_command},
      {"fetch", "Download the source of the installed torch with git, and index it",
       kSourceFetchExamples, source_fetch_command},
      {"list", "List the indexes", kSourceListExamples, source_list_command},
      {"coverage", "Show how complete an index is, compared with PyTorch's yaml and a wheel",
       kSourceCoverageExamples, source_coverage_command},
      {"compare",
       "Show how the ops of two versions of PyTorch differ: schemas, kernels, "
       "derivatives,\nregistrations, decompositions",
       kSourceCompareExamples, source_compare_command},
  };
}

std::vector<CommandRow> cache_commands() {
  return {
      {"list", "List what is kept, with its size", kCacheListExamples, cache_list_command},
      {"clean", "Remove it, and say what was freed", kCacheCleanExamples, cache_clean_command},
  };
}

}  // namespace

const CommandRow& optrace_command() {
  static const CommandRow row = {
      "optrace",
      "Shows what runs below a PyTorch call, on the release wheel.",
      kOptraceExamples,
      op_command,
      {
          {"attach", "Trace a running Python process, then leave it as it was", kAttachExamples,
           attach_command},
          {"locate", "Show where a name of PyTorch is defined: file and line", kLocateExamples,
           locate_command},
          {"explain", "Show the facts about an op in PyTorch's source, without running it",
           kExplainExamples, explain_command},
          {"layers", "Show PyTorch's layers: the purpose, folders and size of each",
           kLayersExamples, layers_command},
          {"report", "Render a saved trace", kReportExamples, report_command},
          {"merge", "Merge the traces of a job's processes into one trace", kMergeExamples,
           merge_command},
          {"compare", "Show the differences between two traces, reports or commands",
           kCompareExamples, compare_command},
          {"check", "Check what ran against rules, for CI", kCheckExamples, check_command},
          {"findings", "Show what makes a program slow, by line, or list the rules",
           kFindingsExamples, findings_command},
          {"source",
           "Manage and compare the indexes of PyTorch's source: add, fetch, list, "
           "coverage,\ncompare",
           kSourceExamples, nullptr, source_commands()},
          {"cache", "Show what optrace keeps: list, clean", kCacheExamples, nullptr,
           cache_commands()},
          {"doctor", "Check what optrace needs: what was found, and what is missing",
           kDoctorExamples, doctor_command},
          {"lsp", "Serve an editor: go to definition and hover on names of PyTorch", kLspExamples,
           lsp_command},
          {"mcp", "Serve a coding assistant: locate, explain, trace_op, report, findings",
           kMcpExamples, mcp_command},
          {"completions", "Print a script that completes command lines of optrace",
           kCompletionsExamples, completions_command},
          {"run", "Run a Python program and trace its use of torch", kRunExamples, run_command},
          {"tensors", "Show where a program's tensors are: storages, views, copies",
           kTensorsExamples, tensors_command},
      },
      "optrace " OPTRACE_VERSION};
  return row;
}

}  // namespace optrace
