#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "platform/text/json_writer.h"
#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "report/formats/writers.h"
#include "report/model/frame_name.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// The tables are inserted between the two parts. All of it is Python: a comment of gdb's own
// language that ends in a backslash would continue on the next line.
constexpr std::string_view kBegin = R"py(python
# Breakpoints on the steps of a call, written by optrace. Use it with gdb 12 or later:
#
#   gdb -x FILE --args python program.py       then `run`, and `continue` from step to step
#   gdb -p PID -x FILE                         in a process that runs
#   gdb -batch -x FILE -ex 'set $optrace_stop = 0' -ex run --args python program.py     print only
#
# A step is printed when its function is entered, after the first step has been reached once.
import os
import gdb

)py";
constexpr std::string_view kEnd = R"py(

def first_address(path):
    """Returns the page-aligned link address of an ELF file's first loadable segment."""
    with open(path, "rb") as file:
        header = file.read(64)
        offset = int.from_bytes(header[32:40], "little")
        size = int.from_bytes(header[54:56], "little")
        for index in range(int.from_bytes(header[56:58], "little")):
            file.seek(offset + index * size)
            segment = file.read(size)
            if int.from_bytes(segment[:4], "little") == 1:
                return int.from_bytes(segment[16:24], "little") & ~0xfff
    return 0


def base_of(path):
    """Returns the run-time address minus the address as linked of a file that is mapped."""
    with open("/proc/%d/maps" % gdb.selected_inferior().pid, encoding="utf-8") as maps:
        starts = [int(line.partition("-")[0], 16) for line in maps
                  if line.rstrip("\n").endswith(" " + path)]
    return min(starts) - first_address(path) if starts else None


class Steps:
    """The breakpoints that are set, and the step that was reached last."""

    def __init__(self):
        self.breakpoints = {}  # (module, address) -> breakpoint
        self.last = None
        self.warned = set()
        gdb.events.new_objfile.connect(lambda event: self.add(event.new_objfile))
        gdb.events.exited.connect(lambda event: self.forget())
        if gdb.selected_inferior().pid:
            for objfile in gdb.objfiles():
                self.add(objfile)

    def add(self, objfile):
        path = objfile.filename
        for module, (name, build_id) in enumerate(MODULES):
            if path is None or os.path.basename(path) != os.path.basename(name):
                continue
            if build_id and objfile.build_id and objfile.build_id != build_id:
                self.warn("optrace: %s is another build than the traced one; its steps are left "
                          "out. Write the script again with this PyTorch.\n" % path)
                continue
            base = base_of(os.path.realpath(path)) if gdb.selected_inferior().pid else None
            if base is None:
                continue
            for of, address, *_ in STEPS:
                if of == module and (module, address) not in self.breakpoints:
                    self.breakpoints[module, address] = Step(module, address, base + address)

    def warn(self, text):
        if text not in self.warned:
            self.warned.add(text)
            gdb.write(text)

    def forget(self):
        for breakpoint in self.breakpoints.values():
            breakpoint.delete()
        self.breakpoints = {}
        self.last = None

    def reach(self, numbers):
        """Returns the step, of those with one function, that comes next or is repeated; None before
        the first."""
        if self.last is None and 0 not in numbers:
            return None
        if self.last is None or self.last + 1 in numbers or self.last not in numbers:
            later = [number for number in numbers if self.last is None or number > self.last]
            self.last = later[0] if later else numbers[0]
        return self.last


class Step(gdb.Breakpoint):
    def __init__(self, module, address, at):
        super().__init__("*0x%x" % at)
        self.silent = True
        self.numbers = [number for number, step in enumerate(STEPS)
                        if step[:2] == (module, address)]

    def stop(self):
        number = STATE.reach(self.numbers)
        if number is None:
            return False
        _, _, name, place, symbol = STEPS[number]
        gdb.write("step %d of %d  %s%s  %s\n"
                  % (number + 1, len(STEPS), name, "  " + place if place else "", symbol))
        return bool(gdb.convenience_variable("optrace_stop"))


if gdb.convenience_variable("optrace_stop") is None:
    gdb.set_convenience_variable("optrace_stop", 1)
gdb.execute("set breakpoint pending on")
STATE = Steps()
end
)py";

// Returns a literal of Python, of which JSON's strings are a part.
std::string python_text(std::string_view text) {
  return json_string(printable(text));
}

std::string place_of(const Frame& frame) {
  return frame.source ? place_text(*frame.source) : std::string();
}

// Returns a number for each module with a step, from 0, by its index.
std::map<std::uint32_t, std::size_t> numbers_of_modules(const Report& report,
                                                        const FunctionEntries& entries) {
  std::map<std::uint32_t, std::size_t> numbers;
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    const auto entry = entries.entries.find(frame.number);
    if (entry != entries.entries.end()) numbers.emplace(entry->second.module, 0);
    return 0;
  });
  std::size_t next = 0;
  for (auto& [module, number] : numbers) number = next++;
  return numbers;
}

}  // namespace

void to_gdb(const Report& report, const FormatOptions&, OutputSink& sink) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): value() throws without entries.
  const FunctionEntries& entries = report.entries.value();
  sink.write(kBegin);
  sink.print("# {}\n", printable(report.recording.call));
  sink.write("# The files with code, and their build ids.\nMODULES = [\n");
  const std::map<std::uint32_t, std::size_t> modules = numbers_of_modules(report, entries);
  for (const auto& [index, number] : modules) {
    const FunctionEntries::Module& module = entries.modules[index];
    sink.print("    ({}, {}),\n", python_text(module.path), python_text(module.build_id));
  }
  sink.write(
      "]\n# Module, address in it, name, file and line, symbol; a comment for frames without "
      "code.\n"
      "STEPS = [\n");
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    const std::string place = place_of(frame);
    const auto entry = entries.entries.find(frame.number);
    if (entry == entries.entries.end())
      sink.print("    # {}  {}\n", frame_label(frame), printable(place));
    else
      sink.print("    ({}, 0x{:x}, {}, {}, {}),\n", modules.at(entry->second.module),
                 entry->second.address, python_text(frame_label(frame)), python_text(place),
                 python_text(frame.symbol.value_or("")));
    return 0;
  });
  sink.write("]\n");
  sink.write(kEnd);
}

}  // namespace optrace
