#include "tracer/calltree/call_tree.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "tests/unit/trace_builder.h"

using optrace::CallTree;
using optrace::EventKind;
using optrace::kNone;
using optrace::Trace;
using optrace::TraceBuilder;

namespace {

// Returns the names on the displayed path from an event's node to its root, innermost first.
std::string shown(const Trace& trace, const CallTree& tree, std::uint32_t event) {
  std::string text;
  for (std::uint32_t node = tree.node_of_event(event); node != kNone;
       node = tree.nodes()[node].shown_under) {
    const CallTree::Node& it = tree.nodes()[node];
    text += text.empty() ? "" : " < ";
    text += it.kind == optrace::PathKind::python ? trace.python_functions[it.what].name
                                                 : trace.functions[it.what].symbol;
  }
  return text;
}

CallTree tree_of(const TraceBuilder& t) {
  return {t.trace, optrace::TraceCallTreeFunctions(t.trace), t.trace.threads[0]};
}

}  // namespace

TEST_CASE("a callee hangs under the live frame of the function that holds its return address",
          "[call_tree]") {
  TraceBuilder t;
  const auto a = t.function("a"), b = t.function("b"), c = t.function("c");
  const auto first = t.enter(a, kNone, 1000);
  const auto second = t.enter(b, a, 900);
  const auto third = t.enter(c, b, 800);
  const auto fourth = t.enter(c, a, 890);  // Below b's slot: only the caller shows that b ended.
  const CallTree tree = tree_of(t);
  CHECK(tree.parent_event(first) == kNone);
  CHECK(tree.parent_event(second) == first);
  CHECK(tree.parent_event(third) == second);
  CHECK(tree.parent_event(fourth) == first);
  CHECK(tree.statistics().roots == 1);
  CHECK(tree.statistics().entries == 4);
}

TEST_CASE("a frame whose slot lies below a new entry's has ended", "[call_tree]") {
  TraceBuilder t;
  const auto a = t.function("a"), b = t.function("b");
  const auto outer = t.enter(a, kNone, 1000);
  t.enter(b, a, 900, 1);
  t.enter(a, b, 800);  // a again, inside b
  const auto after = t.enter(b, a, 950, 2);
  CHECK(tree_of(t).parent_event(after) == outer);
}

TEST_CASE("an exception that leaves several frames at once leaves none of them as a parent",
          "[call_tree]") {
  TraceBuilder t;
  const auto a = t.function("a"), b = t.function("b"), c = t.function("c"), d = t.function("d");
  const auto outer = t.enter(a, kNone, 1000);
  t.enter(b, a, 900);
  t.enter(c, b, 880);
  const auto handler = t.enter(d, a, 700);  // a's handler calls, with much pushed
  const auto inner = t.enter(c, d, 600);
  const CallTree tree = tree_of(t);
  CHECK(tree.parent_event(handler) == outer);
  CHECK(tree.parent_event(inner) == handler);
}

TEST_CASE("the same slot is a tail call only where the code has such a jump", "[call_tree]") {
  TraceBuilder t;
  const auto a = t.function("a"), b = t.function("b"), c = t.function("c"), d = t.function("d");
  SECTION("a direct jump") {
    t.trace.functions[b].tail_calls = {c};
    const auto outer = t.enter(a, kNone, 1000);
    const auto jumper = t.enter(b, a, 900);
    const auto target = t.enter(c, a, 900);
    const auto below = t.enter(d, c, 800);
    const CallTree tree = tree_of(t);
    CHECK(tree.parent_event(target) == jumper);
    CHECK(tree.nodes()[tree.node_of_event(target)].tail_call);
    CHECK_FALSE(tree.nodes()[tree.node_of_event(below)].tail_call);
    CHECK(tree.parent_event(below) == target);
    CHECK(tree.parent_event(jumper) == outer);
    CHECK(tree.statistics().tail_calls == 1);
    CHECK(tree.statistics().indirect_tail_calls == 0);
  }
  SECTION("an indirect jump") {
    t.trace.functions[b].jumps_indirectly = true;
    t.enter(a, kNone, 1000);
    const auto jumper = t.enter(b, a, 900);
    const auto target = t.enter(c, a, 900);
    const CallTree tree = tree_of(t);
    CHECK(tree.parent_event(target) == jumper);
    CHECK(tree.statistics().indirect_tail_calls == 1);
  }
  SECTION("a jump in the part of the function that was moved away") {
    const auto cold = t.function("b.cold");
    t.trace.functions[cold].tail_calls = {c};
    t.enter(a, kNone, 1000);
    const auto jumper = t.enter(b, a, 900);
    CHECK(tree_of(t).statistics().tail_calls == 0);
    const auto target = t.enter(c, a, 900);
    CHECK(tree_of(t).parent_event(target) == jumper);
  }
  SECTION("no jump: the earlier one returned, and its caller called again") {
    const auto outer = t.enter(a, kNone, 1000);
    t.enter(b, a, 900);
    const auto second = t.enter(c, a, 900);
    CHECK(tree_of(t).parent_event(second) == outer);
    CHECK(tree_of(t).statistics().tail_calls == 0);
  }
  SECTION("another return address: not the frame that was jumped from") {
    t.trace.functions[b].tail_calls = {c};
    const auto outer = t.enter(a, kNone, 1000);
    t.enter(b, a, 900, 1);
    const auto second = t.enter(c, a, 900, 2);
    CHECK(tree_of(t).parent_event(second) == outer);
  }
  SECTION("a loop around a function that jumps is no jump to itself") {
    t.trace.functions[b].jumps_indirectly = true;
    const auto outer = t.enter(a, kNone, 1000);
    t.enter(b, a, 900);
    t.enter(c, a, 900);
    const auto again = t.enter(b, a, 900);
    const auto target = t.enter(c, a, 900);
    const CallTree tree = tree_of(t);
    CHECK(tree.parent_event(again) == outer);
    CHECK(tree.parent_event(target) == again);
    CHECK(tree.statistics().tail_calls == 2);
  }
}

TEST_CASE("a loop that branches to its function's own entry is no call", "[call_tree]") {
  TraceBuilder t;
  const auto a = t.function("a"), loop = t.function("loop"), b = t.function("b");
  t.trace.functions[loop].enters_itself = true;
  const auto outer = t.enter(a, kNone, 1000);
  const auto first = t.enter(loop, a, 900);
  const auto turn = t.enter(loop, a, 900);
  const auto below = t.enter(b, loop, 800);
  const auto last = t.enter(loop, a, 900);
  const CallTree tree = tree_of(t);
  CHECK(tree.node_of_event(turn) == tree.node_of_event(first));
  CHECK(tree.node_of_event(last) == tree.node_of_event(first));
  CHECK(tree.parent_event(turn) == outer);
  CHECK(tree.parent_event(below) == first);
  CHECK(tree.nodes().size() == 3);
  CHECK(tree.statistics().self_entries == 2);
}

TEST_CASE("recursion: the distance of the return slots tells the activations apart",
          "[call_tree]") {
  TraceBuilder t;
  const auto f = t.function("f"), g = t.function("g");
  const auto outer = t.enter(f, kNone, 1000);
  const auto learn = t.enter(g, f, 960, 1);       // 40 below f's slot, with one f live.
  const auto inner = t.enter(f, f, 970, 2);       // f calls itself with less pushed, and returns.
  const auto from_outer = t.enter(g, f, 960, 1);  // 40 below the outer f.
  const auto again = t.enter(f, f, 970, 2);
  const auto from_inner = t.enter(g, f, 930, 1);
  const CallTree tree = tree_of(t);
  CHECK(tree.parent_event(learn) == outer);
  CHECK(tree.parent_event(inner) == outer);
  CHECK(tree.parent_event(from_outer) == outer);
  CHECK(tree.parent_event(again) == outer);
  CHECK(tree.parent_event(from_inner) == again);
  CHECK(tree.statistics().recursive_callers == 0);
}

TEST_CASE("a probed caller that is not live was entered before recording: a root", "[call_tree]") {
  TraceBuilder t;
  const auto early = t.function("early"), a = t.function("a"), b = t.function("b");
  t.enter(a, early, 900);
  const auto second = t.enter(b, early, 890);
  const CallTree tree = tree_of(t);
  CHECK(tree.parent_event(second) == kNone);
  CHECK(tree.nodes()[tree.node_of_event(second)].parent == kNone);
  CHECK(tree.statistics().roots == 2);
}

TEST_CASE("frames of the initial stack are live from the start", "[call_tree]") {
  TraceBuilder t;
  const auto early = t.function("early"), a = t.function("a"), b = t.function("b");
  t.live_at_start(early, 1000);
  const auto first = t.enter(a, early, 900);
  const auto second = t.enter(b, early, 890);
  const CallTree tree = tree_of(t);
  for (const auto event : {first, second}) {
    CHECK(tree.parent_event(event) == kNone);
    CHECK(tree.nodes()[tree.node_of_event(event)].parent == 0);
  }
  CHECK(tree.nodes()[0].kind == optrace::PathKind::initial);
  CHECK(tree.statistics().roots == 0);
}

TEST_CASE("a caller without a probe is guessed, and counted", "[call_tree]") {
  TraceBuilder t;
  const auto a = t.function("a"), bare = t.function("bare", false), b = t.function("b");
  const auto outer = t.enter(a, kNone, 1000);
  const auto below = t.enter(b, bare, 800);
  const CallTree tree = tree_of(t);
  CHECK(tree.parent_event(below) == outer);
  CHECK(tree.statistics().unprobed_callers == 1);
}

TEST_CASE("Python up to 3.10 runs one evaluation loop for each call", "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault"), vectorcall = t.function("vectorcall");
  const auto binding = t.function("THPVariable_conv2d"), op = t.function("conv2d_call");
  const auto call_impl = t.python("Module._call_impl"), forward = t.python("Conv2d.forward");
  const auto conv2d = t.python("torch.conv2d");

  t.live_at_start(loop, 2000);
  t.enter(vectorcall, loop, 1900);
  t.enter(loop, vectorcall, 1800);
  t.python_event(EventKind::python_call, call_impl, 1700, 11);
  t.enter(vectorcall, loop, 1650);
  t.enter(loop, vectorcall, 1600);
  const auto call = t.python_event(EventKind::python_call, forward, 1500, 1750);
  t.python_event(EventKind::builtin_call, conv2d, 1450, 549);
  const auto native = t.enter(binding, loop, 1480);
  const auto below = t.enter(op, binding, 1400);
  t.python_event(EventKind::builtin_return, conv2d, 1450);
  t.python_event(EventKind::python_return, forward, 1500);
  const auto after = t.enter(binding, loop, 1690);
  t.python_event(EventKind::python_return, call_impl, 1700);

  const CallTree tree = tree_of(t);
  CHECK(shown(t.trace, tree, below) ==
        "conv2d_call < THPVariable_conv2d < Conv2d.forward < _PyEval_EvalFrameDefault < "
        "vectorcall < Module._call_impl < _PyEval_EvalFrameDefault < vectorcall < "
        "_PyEval_EvalFrameDefault");
  CHECK(shown(t.trace, tree, after).starts_with("THPVariable_conv2d < Module._call_impl < "));
  const CallTree::Node& binding_node = tree.nodes()[tree.node_of_event(native)];
  CHECK(binding_node.line == 549);
  CHECK(binding_node.builtin == conv2d);
  CHECK(tree.nodes()[tree.node_of_event(call)].line == 1750);
  CHECK(tree.statistics().roots == 0);
}

TEST_CASE("Python from 3.11 on runs many calls in one evaluation loop", "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault"), slot = t.function("slot_tp_call");
  const auto binding = t.function("THPVariable_relu");
  const auto outer = t.python("outer"), inner = t.python("inner"), method = t.python("method");

  t.live_at_start(loop, 2000);
  t.python_event(EventKind::python_call, outer, 1900, 1);
  t.python_event(EventKind::python_call, inner, 1900, 2);  // The same loop.
  const auto in_inner = t.enter(binding, loop, 1890);
  t.python_event(EventKind::python_return, inner, 1900);
  const auto in_outer = t.enter(binding, loop, 1890);
  t.enter(slot, loop, 1895);  // C code calls Python, which starts another loop.
  t.enter(loop, slot, 1800);
  const auto nested = t.python_event(EventKind::python_call, method, 1700, 3);
  const auto in_method = t.enter(binding, loop, 1690);
  t.python_event(EventKind::python_return, method, 1700);
  const auto last = t.python_event(EventKind::python_call, inner, 1600, 4);  // In the first loop.
  const auto in_last = t.enter(binding, loop, 1890);

  const CallTree tree = tree_of(t);
  CHECK(shown(t.trace, tree, in_inner) ==
        "THPVariable_relu < inner < outer < _PyEval_EvalFrameDefault");
  CHECK(shown(t.trace, tree, in_outer) == "THPVariable_relu < outer < _PyEval_EvalFrameDefault");
  CHECK(shown(t.trace, tree, in_method) ==
        "THPVariable_relu < method < _PyEval_EvalFrameDefault < slot_tp_call < outer < "
        "_PyEval_EvalFrameDefault");
  CHECK(shown(t.trace, tree, last) == "inner < outer < _PyEval_EvalFrameDefault");
  CHECK(shown(t.trace, tree, in_last) ==
        "THPVariable_relu < inner < outer < _PyEval_EvalFrameDefault");
  CHECK(tree.nodes()[tree.node_of_event(nested)].line == 3);
}

TEST_CASE("a position gives a line to what Python calls unasked", "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault");
  const auto add = t.function("THPVariable_add"), dealloc = t.function("THPVariable_dealloc");
  const auto unprobed = t.function("PyNumber_Add", false);
  const auto slot = t.function("PyNumber_InPlaceAdd"), other_slot = t.function("PyNumber_Power");
  const auto outer = t.python("outer"), inner = t.python("inner");

  t.live_at_start(loop, 2000);
  t.python_event(EventKind::python_call, outer, 1900);
  t.python_event(EventKind::python_position, outer, 0, 5);
  const auto first = t.enter(add, loop, 1890);
  t.python_event(EventKind::python_position, outer, 0, 6);
  t.enter(dealloc, loop, 1890);
  // The loop has moved on, so its callee has ended, whatever the caller of the next function is.
  t.python_event(EventKind::python_position, outer, 0, 7);
  const auto second = t.enter(add, unprobed, 1800);
  // All operators are called from the same instruction, and some end in an indirect jump.
  t.trace.functions[slot].jumps_indirectly = true;
  t.python_event(EventKind::python_position, outer, 0, 10);
  t.enter(slot, loop, 1890);
  t.python_event(EventKind::python_position, outer, 0, 11);
  const auto fourth = t.enter(other_slot, loop, 1890);
  t.python_event(EventKind::python_position, outer, 0, 8);
  const auto call = t.python_event(EventKind::python_call, inner, 1900);
  t.python_event(EventKind::python_position, outer, 0, 9);  // Not the innermost frame.
  const auto nowhere = t.enter(add, loop, 1890);
  t.python_event(EventKind::python_position, inner, 0, 20);
  const auto third = t.enter(add, loop, 1890);
  t.python_event(EventKind::python_return, inner, 1900);
  const auto again = t.enter(add, loop, 1890);  // At the line of the call of `inner`.

  const CallTree tree = tree_of(t);
  const auto line = [&](std::uint32_t event) {
    return tree.nodes()[tree.node_of_event(event)].line;
  };
  CHECK(line(first) == 5);
  CHECK(line(second) == 7);
  CHECK(shown(t.trace, tree, second) == "THPVariable_add < outer < _PyEval_EvalFrameDefault");
  CHECK(line(fourth) == 11);
  CHECK(tree.statistics().tail_calls == 0);
  CHECK(line(call) == 8);
  CHECK(line(nowhere) == 0);
  CHECK(line(third) == 20);
  CHECK(line(again) == 8);
}

TEST_CASE("what calls the hook from the evaluation loop outlives the hook", "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault");
  const auto hook_caller = t.function("call_trace_protected"),
             restore = t.function("PyErr_Restore");
  const auto outer = t.python("outer"), binding = t.function("binding");
  t.live_at_start(loop, 2000);
  const auto before = t.enter(hook_caller, loop, 1900);
  t.python_event(EventKind::python_call, outer, 1800);
  const auto after = t.enter(restore, hook_caller, 1850);
  const auto inside = t.enter(binding, loop, 1900, 1);
  const auto leaving = t.enter(hook_caller, loop, 1900);
  t.python_event(EventKind::python_return, outer, 1800);
  const auto left = t.enter(restore, hook_caller, 1850);
  const CallTree tree = tree_of(t);
  CHECK(tree.parent_event(after) == before);
  CHECK(tree.parent_event(left) == leaving);
  CHECK(shown(t.trace, tree, inside) == "binding < outer < _PyEval_EvalFrameDefault");
  CHECK(tree.statistics().roots == 0);
}

TEST_CASE("Python frames are placed by their order where no evaluation loop is probed",
          "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault", false);
  const auto binding = t.function("THPVariable_relu"), hook = t.function("call_hook");
  const auto outer = t.python("outer"), callback = t.python("callback");
  const auto relu = t.python("torch.relu");

  t.python_event(EventKind::python_call, outer, 1900);
  t.python_event(EventKind::builtin_call, relu, 1850, 7);
  const auto first = t.enter(binding, loop, 1890);
  t.enter(hook, binding, 1800);
  const auto called_back = t.python_event(EventKind::python_call, callback, 1600);
  const auto inside = t.enter(binding, loop, 1500);
  t.python_event(EventKind::python_return, callback, 1600);
  t.python_event(EventKind::builtin_return, relu, 1850);
  const auto second = t.enter(binding, loop, 1890);

  const CallTree tree = tree_of(t);
  CHECK(shown(t.trace, tree, first) == "THPVariable_relu < outer");
  CHECK(tree.nodes()[tree.node_of_event(first)].line == 7);
  CHECK(shown(t.trace, tree, called_back) == "callback < call_hook < THPVariable_relu < outer");
  CHECK(shown(t.trace, tree, inside) ==
        "THPVariable_relu < callback < call_hook < THPVariable_relu < outer");
  CHECK(shown(t.trace, tree, second) == "THPVariable_relu < outer");
}

TEST_CASE("an evaluation loop without a probe is the caller that was recorded", "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault", false);
  const auto start = t.function("start_thread_main"), slot = t.function("slot_tp_call", false);
  const auto binding = t.function("THPVariable_relu"), kernel = t.function("relu_kernel");
  const auto outer = t.python("outer"), inner = t.python("inner"), method = t.python("method");

  t.enter(start, kNone, 3000);
  t.called_by(loop, start, 2000);
  t.python_event(EventKind::python_call, outer, 1900, 1);
  t.python_event(EventKind::python_call, inner, 1900, 2);  // The same loop.
  const auto in_inner = t.enter(binding, loop, 1890);
  const auto below = t.enter(kernel, binding, 1800);
  t.python_event(EventKind::python_return, inner, 1900);
  const auto in_outer = t.enter(binding, loop, 1890);
  std::vector<std::uint32_t> in_method, nested;
  for (int i = 0; i < 2; ++i) {  // C code calls Python twice: two loops in the same place.
    t.called_by(slot, loop, 1895);
    nested.push_back(t.called_by(loop, slot, 1800));
    t.python_event(EventKind::python_call, method, 1700, 3);
    in_method.push_back(t.enter(binding, loop, 1690));
    t.python_event(EventKind::python_return, method, 1700);
  }
  // The inner loop has ended, so this is the outer one's.
  const auto after = t.enter(binding, loop, 1690, 1);
  t.python_event(EventKind::python_ran, 0, 1900);
  const auto last = t.enter(binding, slot, 1500);

  const CallTree tree = tree_of(t);
  CHECK(shown(t.trace, tree, below) ==
        "relu_kernel < THPVariable_relu < inner < outer < _PyEval_EvalFrameDefault < "
        "start_thread_main");
  CHECK(shown(t.trace, tree, in_inner).starts_with("THPVariable_relu < inner < outer < "));
  CHECK(shown(t.trace, tree, in_outer) ==
        "THPVariable_relu < outer < _PyEval_EvalFrameDefault < start_thread_main");
  for (const std::uint32_t event : in_method)
    CHECK(shown(t.trace, tree, event) ==
          "THPVariable_relu < method < _PyEval_EvalFrameDefault < slot_tp_call < outer < "
          "_PyEval_EvalFrameDefault < start_thread_main");
  CHECK(tree.node_of_event(nested[0]) != tree.node_of_event(nested[1]));
  CHECK(shown(t.trace, tree, after) ==
        "THPVariable_relu < outer < _PyEval_EvalFrameDefault < start_thread_main");
  // Python has run outside of everything below the loop.
  CHECK(shown(t.trace, tree, last) ==
        "THPVariable_relu < outer < _PyEval_EvalFrameDefault < start_thread_main");
}

TEST_CASE("returns of Python frames that were never seen to start are counted, not believed",
          "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault"), binding = t.function("binding");
  const auto unseen = t.python("unseen"), seen = t.python("seen");
  t.live_at_start(loop, 2000);
  t.python_event(EventKind::python_call, seen, 1900);
  t.python_event(EventKind::python_return, unseen, 1900);
  const auto below = t.enter(binding, loop, 1800);
  const CallTree tree = tree_of(t);
  CHECK(shown(t.trace, tree, below) == "binding < seen < _PyEval_EvalFrameDefault");
  CHECK(tree.statistics().unmatched_python_events == 1);
}

TEST_CASE("a call tree as deep as the events are many takes neither stack nor quadratic time",
          "[call_tree]") {
  TraceBuilder t;
  const auto loop = t.function("_PyEval_EvalFrameDefault"), vectorcall = t.function("vectorcall");
  const auto leaf = t.function("leaf");
  const auto recurse = t.python("recurse");
  constexpr std::uint64_t kDepth = 100'000;
  t.live_at_start(loop, 1'000 * kDepth + 1'000);
  for (std::uint64_t i = kDepth; i > 0; --i) {
    t.enter(vectorcall, loop, i * 1'000 + 900);
    t.enter(loop, vectorcall, i * 1'000 + 800);
    t.python_event(EventKind::python_call, recurse, i * 1'000 + 700, 5);
  }
  for (std::uint64_t i = 1; i <= kDepth; ++i) {
    t.enter(leaf, loop, i * 1'000 + 600, 9);
    t.python_event(EventKind::python_return, recurse, i * 1'000 + 700);
  }
  const CallTree tree = tree_of(t);
  CHECK(tree.nodes().size() == 1 + 4 * kDepth);
  CHECK(tree.statistics().roots == 0);
}

TEST_CASE("an event that names a function which is not there is refused", "[call_tree]") {
  TraceBuilder t;
  t.enter(5, kNone, 1000);
  CHECK_THROWS_AS(tree_of(t), optrace::Error);
  t.trace.threads[0].events.clear();
  t.enter(t.function("a"), 77, 1000);
  CHECK_THROWS_AS(tree_of(t), optrace::Error);
  t.trace.threads[0].events.clear();
  t.python_event(EventKind::python_call, 3, 1000);
  CHECK_THROWS_AS(tree_of(t), optrace::Error);
}
