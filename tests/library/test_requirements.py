"""The requirements of graph-api.md section 3, one by one: which test shows each, and that the test is there and says so.

A pointer is a test file, or file::test. The docstring of the test (or, for a whole file, of the module) names the requirement.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL, SEMANTICS, EXECUTION, OPAQUE = (
    f"tests/library/test_{name}.py::" for name in ("programming_model", "graph_semantics", "execution", "opaque")
)

SHOWN: dict[str, tuple[str, ...]] = {
    # S0: the oneAPI specification's programming model
    "S0-1": (f"{MODEL}test_shapes_may_come_at_compile",),
    "S0-2": (
        f"{SEMANTICS}test_one_producer_and_many_consumers",
        f"{SEMANTICS}test_two_producers_of_a_tensor_are_refused",
        f"{MODEL}test_a_taken_op_id_is_refused",
    ),
    "S0-3": ("tests/ops/test_add_op_refuses.py::test_add_op_names_the_op_the_mistake_and_the_remedy",),
    "S0-4": (f"{SEMANTICS}test_logical_tensors_of_one_id_must_be_identical",),
    "S0-5": (f"{MODEL}test_finalize_gates_both_ways",),
    "S0-6": (f"{SEMANTICS}test_a_path_through_a_wildcard_keeps_its_ends_apart",),
    "S0-7": (f"{SEMANTICS}test_end_makes_a_tensor_leave_the_graph",),
    "S0-8": ("tests/library/test_partition_invariants.py::test_partitions_of_random_graphs",),
    "S0-9": (f"{SEMANTICS}test_uncomputable_ops_are_partitions_of_their_own",),
    "S0-10": (f"{SEMANTICS}test_ports_are_enough_to_wire_any_partitions_together",),
    "S0-11": (f"{MODEL}test_compile_refuses",),
    "S0-12": (
        "tests/library/test_output_shapes.py::test_unknown_ranks_and_dims_of_outputs_are_inferred",
        "tests/library/test_output_shapes.py::test_dims_that_cannot_be_inferred_are_an_error_with_a_remedy",
    ),
    "S0-13": (f"{OPAQUE}test_a_chain_through_blocks_is_bit_equal_to_the_strided_one", f"{OPAQUE}test_reorder_converts_between_all_layouts"),
    "S0-14": ("tests/library/test_strides.py",),
    "S0-15": (f"{EXECUTION}test_the_queried_size_suffices_and_nothing_beyond_it_is_touched",),
    "S0-16": (f"{EXECUTION}test_results_are_written_only_to_the_users_memory", f"{MODEL}test_execute_wants_the_order_of_compile"),
    "S0-17": ("tests/library/test_memory.py",),
    "S0-18": ("tests/library/test_inplace.py",),
    "S0-19": (f"{OPAQUE}test_a_weight_prepacked_by_the_user_is_used_as_it_is",),
    "S0-20": (f"{EXECUTION}test_a_second_compilation_compiles_nothing", f"{MODEL}test_compiling_the_same_again_is_a_hit"),
    "S0-21": (f"{EXECUTION}test_objects_are_shared_and_live_as_long_as_they_are_needed",),
    "S0-22": (
        "tests/library/test_misuse.py::test_statuses_belong_to_classes",
        "tests/library/test_misuse.py::test_add_op_returns_the_status_it_would_raise",
    ),
    "S0-23": (f"{MODEL}test_eight_threads_share_a_compiled_partition",),
    # S2: the RFC
    "S2-1": (
        "tests/library/test_docs.py::test_the_pages_convolution_is_right",
        f"{EXECUTION}test_conv_relu_conv_end_to_end_in_any_order_of_adding",
    ),
    "S2-2": (f"{SEMANTICS}test_new_patterns_need_no_new_user_code",),
    "S2-3": (f"{EXECUTION}test_attributes_define_the_meaning_of_dims",),
    "S2-4": ("tests/library/test_output_shapes.py::test_unknown_ranks_and_dims_of_outputs_are_inferred",),
    "S2-5": (f"{EXECUTION}test_an_opaque_activation_needs_no_reorder_by_the_user",),
    "S2-6": (f"{MODEL}test_compiling_the_same_again_is_a_hit", "tests/library/test_constant_cache.py"),
    "S2-7": (f"{OPAQUE}test_a_weight_prepacked_by_the_user_is_used_as_it_is",),
    "S2-8": ("tests/ops/test_gradients.py",),
    "S2-9": (
        f"{EXECUTION}test_auto_pad_is_computed_by_the_library",
        f"{SEMANTICS}test_a_composite_op_is_spelled_out_and_fused",
        f"{SEMANTICS}test_int8_comes_in_by_quantize_and_dequantize_with_zero_points",
    ),
    "S2-10": ("tests/library/test_threadpool.py::test_the_pool_gets_the_work_and_the_results_are_the_same", "tests/library/test_tensor.py"),
    "S2-11": (
        "tests/library/test_verbose.py::test_compilations_are_logged_with_hit_or_miss",
        "tests/library/test_verbose.py::test_executions_are_logged_one_by_one",
    ),
    "S2-12": ("tests/library/test_framework_demo.py::test_the_rewritten_graph_computes_the_same",),
    "S2-13": (
        "tests/library/test_dump.py::test_a_dumped_graph_is_the_same_graph",
        "tests/library/test_dump.py::test_every_dump_is_a_case_of_the_graph_driver",
        "tests/graph/test_json.py::test_the_corpus_loads_and_writes_back_to_the_same_graph",
    ),
    "S2-14": ("tests/test_corpus.py",),
    # S4: basic concepts
    "S4-1": (f"{SEMANTICS}test_partitions_inherit_the_graphs_engine_kind_and_math_mode",),
    "S4-2": (
        f"{MODEL}test_compile_refuses",
        "tests/library/test_output_shapes.py::test_dims_that_cannot_be_inferred_are_an_error_with_a_remedy",
    ),
    "S4-3": (f"{OPAQUE}test_a_chain_through_blocks_is_bit_equal_to_the_strided_one",),
    "S4-4": (f"{SEMANTICS}test_only_ports_are_shown",),
    "S4-5": ("tests/library/test_tensor.py::test_the_users_memory_is_never_freed_by_the_library",),
    "S4-6": (f"{SEMANTICS}test_partitions_inherit_the_graphs_engine_kind_and_math_mode",),
}


def test_no_requirement_is_missing() -> None:
    wanted = [f"S0-{n}" for n in range(1, 24)] + [f"S2-{n}" for n in range(1, 15)] + [f"S4-{n}" for n in range(1, 7)]
    assert list(SHOWN) == wanted


@pytest.mark.parametrize(("requirement", "pointer"), [(r, p) for r, pointers in SHOWN.items() for p in pointers])
def test_the_test_is_there_and_names_what_it_shows(requirement: str, pointer: str) -> None:
    file, _, name = pointer.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    where: ast.Module | ast.FunctionDef = tree
    if name:
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        assert len(functions) == 1, f"{file} has no test {name}"
        where = functions[0]
    assert re.search(rf"\b{requirement}\b", ast.get_docstring(where) or ""), f"the docstring of {pointer} does not name {requirement}"


def test_every_requirement_that_a_docstring_names_is_known() -> None:
    """No test of this folder claims what is not on the list."""
    named = {n for path in Path(__file__).parent.glob("test_*.py") for n in re.findall(r"\bS[024]-\d+\b", path.read_text(encoding="utf-8"))}
    assert named <= set(SHOWN)
