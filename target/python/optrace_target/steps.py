"""Counts the steps of a program that `optrace run --from-step` started.

A step ends where an optimizer's step() returns, or where the program calls optrace.step(): the
first of these in a process decides which of them count. The steps of one optimizer count: of the
first one that steps or, once that one has been deleted, of the next one.
"""
import sys
import weakref

_MARK = "_optrace_step"  # The attribute of `sys` that optrace.step() calls (python/optrace).


class Steps:
    """Calls `ended` with the number of completed steps whenever a step ends, until stop()."""

    def __init__(self, ended):
        # Not an attribute of torch.optim, which deletes it.
        module = sys.modules["torch.optim.optimizer"]
        self.count = 0
        self._ended = ended
        self._optimizer = None  # A weak reference to the one whose steps count.
        self._marked = None  # True if calls of optrace.step() count, False if an optimizer's do.
        self._hooks = module._global_optimizer_post_hooks
        handle = module.register_optimizer_step_post_hook(self._stepped)
        self._hook = handle.id
        setattr(sys, _MARK, self._mark)

    def stop(self):
        """Counts no more steps. May be called in `ended`."""
        if getattr(sys, _MARK, None) == self._mark:
            delattr(sys, _MARK)
        if self._hook not in self._hooks:
            return
        # A dict must not shrink while it is iterated over. Every running iteration over this one
        # has ended if it has no other hook, since `ended` is called by its only one. Otherwise, a
        # callable without any effect remains.
        if len(self._hooks) == 1:
            del self._hooks[self._hook]
        else:
            self._hooks[self._hook] = slice

    def _stepped(self, optimizer, arguments, keywords):
        if self._marked:
            return
        self._marked = False
        counted = self._optimizer and self._optimizer()
        if counted is None:
            self._optimizer = weakref.ref(optimizer)
        elif counted is not optimizer:
            return
        self.count += 1
        self._ended(self.count)

    def _mark(self):
        if self._marked is False:
            return
        self._marked = True
        self.count += 1
        self._ended(self.count)
