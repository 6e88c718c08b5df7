"""Tests with the pytest plugin: the marker checks a whole test against rules, and the
fixture checks a part of one.

    python -m pytest test_model.py
"""
import pytest
import torch


@pytest.fixture(name="model")
def small_model():
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())


@pytest.mark.optrace(expect=["calls aten::linear == 1", "no kernel of dtype float64"])
def test_forward(model):
    assert model(torch.ones(2, 8)).shape == (2, 4)


def test_attention_of_a_long_sequence(optrace):
    query = torch.ones(1, 2, 64, 16)
    with optrace.trace() as trace:
        torch.nn.functional.scaled_dot_product_attention(query, query, query)
    optrace.check(trace, "scaled_dot_product_attention uses flash")


@pytest.mark.parametrize("batch", [1, 8])
def test_the_number_of_ops_does_not_depend_on_the_batch(model, batch, optrace):
    inputs = torch.ones(batch, 8)
    with optrace.trace() as trace:
        model(inputs)
    optrace.check(trace, "calls aten::addmm == 1")
