"""Code that runs in the traced interpreter: finds the op, makes a sample call, records it."""
