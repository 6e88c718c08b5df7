"""Finds the op and makes a sample call."""
