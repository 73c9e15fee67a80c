"""What oneDNN Graph promises its users, fact by fact: which test shows each, and that the test is there.

A pointer is a test file, or file::test.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL, SEMANTICS, EXECUTION, OPAQUE = (
    f"tests/library/test_{name}.py::" for name in ("programming_model", "graph_semantics", "execution", "opaque")
)

SHOWN: dict[str, tuple[str, ...]] = {
    # The programming model of the oneAPI specification
    "a graph built with unknown dims is compiled with full logical tensors of the same ids": (f"{MODEL}test_shapes_may_come_at_compile",),
    "ids connect ops and tensors: one producer, many consumers, no id of an op twice": (
        f"{SEMANTICS}test_one_producer_and_many_consumers",
        f"{SEMANTICS}test_two_producers_of_a_tensor_are_refused",
        f"{MODEL}test_a_taken_op_id_is_refused",
    ),
    "add_op checks the schema, and raises or returns a status": (
        "tests/ops/test_add_op_refuses.py::test_add_op_names_the_op_the_mistake_and_the_remedy",
    ),
    "logical tensors of equal id are identical": (f"{SEMANTICS}test_logical_tensors_of_one_id_must_be_identical",),
    "finalize ends add_op and begins get_partitions": (f"{MODEL}test_finalize_gates_both_ways",),
    "a Wildcard takes part in the analysis of paths": (f"{SEMANTICS}test_a_path_through_a_wildcard_keeps_its_ends_apart",),
    "End makes a tensor an output of the graph": (f"{SEMANTICS}test_end_makes_a_tensor_leave_the_graph",),
    "partitions cover all ops in topological order, without cycles": (
        "tests/library/test_partition_invariants.py::test_partitions_of_random_graphs",
    ),
    "an unsupported op is a partition of its own that cannot be compiled": (
        f"{SEMANTICS}test_uncomputable_ops_are_partitions_of_their_own",
    ),
    "ports have ids and dtypes, which are enough to wire partitions together": (
        f"{SEMANTICS}test_ports_are_enough_to_wire_any_partitions_together",
    ),
    "compile needs full logical tensors, with the ids and dtypes of the ports": (f"{MODEL}test_compile_refuses",),
    "output shapes with unknown ranks and dims are inferred": (
        "tests/library/test_output_shapes.py::test_unknown_ranks_and_dims_of_outputs_are_inferred",
        "tests/library/test_output_shapes.py::test_dims_that_cannot_be_inferred_are_an_error_with_a_remedy",
    ),
    "layout `any` becomes an opaque layout, which the next partition reads": (
        f"{OPAQUE}test_a_chain_through_blocks_is_bit_equal_to_the_strided_one",
        f"{OPAQUE}test_reorder_converts_between_all_layouts",
    ),
    "strided tensors are compiled": ("tests/library/test_strides.py",),
    "the queried size of an output suffices": (f"{EXECUTION}test_the_queried_size_suffices_and_nothing_beyond_it_is_touched",),
    "execute takes tensors in the order of compile, and writes the user's memory": (
        f"{EXECUTION}test_results_are_written_only_to_the_users_memory",
        f"{MODEL}test_execute_wants_the_order_of_compile",
    ),
    "memory that the user does not provide comes from the engine's allocator": ("tests/library/test_memory.py",),
    "in-place pairs may be used or not": ("tests/library/test_inplace.py",),
    "a user may prepack a weight": (f"{OPAQUE}test_a_weight_prepacked_by_the_user_is_used_as_it_is",),
    "a compiled partition serves many iterations, and is compiled once": (
        f"{EXECUTION}test_a_second_compilation_compiles_nothing",
        f"{MODEL}test_compiling_the_same_again_is_a_hit",
    ),
    "objects are shared, and live as long as they are needed": (f"{EXECUTION}test_objects_are_shared_and_live_as_long_as_they_are_needed",),
    "errors carry statuses": (
        "tests/library/test_misuse.py::test_statuses_belong_to_classes",
        "tests/library/test_misuse.py::test_add_op_returns_the_status_it_would_raise",
    ),
    "threads may execute one compiled partition at the same time": (f"{MODEL}test_eight_threads_share_a_compiled_partition",),
    # The RFC of the graph API
    "a convolution and a ReLU run end to end, whatever the order of adding": (
        "tests/library/test_docs.py::test_the_pages_convolution_is_right",
        f"{EXECUTION}test_conv_relu_conv_end_to_end_in_any_order_of_adding",
    ),
    "new patterns need no new user code": (f"{SEMANTICS}test_new_patterns_need_no_new_user_code",),
    "attributes, not format tags, define the meaning of dims": (f"{EXECUTION}test_attributes_define_the_meaning_of_dims",),
    "output shapes can be queried": ("tests/library/test_output_shapes.py::test_unknown_ranks_and_dims_of_outputs_are_inferred",),
    "activations need no reorder by the user": (f"{EXECUTION}test_an_opaque_activation_needs_no_reorder_by_the_user",),
    "compiled partitions and constant weights are cached": (
        f"{MODEL}test_compiling_the_same_again_is_a_hit",
        "tests/library/test_constant_cache.py",
    ),
    "an expert may reorder weights and activations": (f"{OPAQUE}test_a_weight_prepacked_by_the_user_is_used_as_it_is",),
    "every backward op is a gradient": ("tests/ops/test_gradients.py",),
    "auto_pad, composite ops, and int8 by Quantize and Dequantize": (
        f"{EXECUTION}test_auto_pad_is_computed_by_the_library",
        f"{SEMANTICS}test_a_composite_op_is_spelled_out_and_fused",
        f"{SEMANTICS}test_int8_comes_in_by_quantize_and_dequantize_with_zero_points",
    ),
    "a stream may use the user's thread pool, and tensors the user's memory": (
        "tests/library/test_threadpool.py::test_the_pool_gets_the_work_and_the_results_are_the_same",
        "tests/library/test_tensor.py",
    ),
    "compilations and executions are logged": (
        "tests/library/test_verbose.py::test_compilations_are_logged_with_hit_or_miss",
        "tests/library/test_verbose.py::test_executions_are_logged_one_by_one",
    ),
    "a framework replaces parts of its graph by custom ops": (
        "tests/library/test_framework_demo.py::test_the_rewritten_graph_computes_the_same",
    ),
    "graphs are dumped as JSON, and loaded": (
        "tests/library/test_dump.py::test_a_dumped_graph_is_the_same_graph",
        "tests/library/test_dump.py::test_every_dump_is_a_case_of_the_graph_driver",
        "tests/graph/test_json.py::test_the_corpus_loads_and_writes_back_to_the_same_graph",
    ),
    "the graph driver runs real graphs": ("tests/test_corpus.py",),
    # Basic Concepts, in oneDNN's documentation of the graph API
    "partitions inherit the graph's engine kind": (f"{SEMANTICS}test_partitions_inherit_the_graphs_engine_kind_and_math_mode",),
    "compile needs shapes, or infers them": (
        f"{MODEL}test_compile_refuses",
        "tests/library/test_output_shapes.py::test_dims_that_cannot_be_inferred_are_an_error_with_a_remedy",
    ),
    "the first partition chooses a layout, the second reads it": (f"{OPAQUE}test_a_chain_through_blocks_is_bit_equal_to_the_strided_one",),
    "only ports of a partition are shown": (f"{SEMANTICS}test_only_ports_are_shown",),
    "the library never frees the user's memory": ("tests/library/test_tensor.py::test_the_users_memory_is_never_freed_by_the_library",),
    "partitions inherit the graph's math mode": (f"{SEMANTICS}test_partitions_inherit_the_graphs_engine_kind_and_math_mode",),
}


@pytest.mark.parametrize("pointer", dict.fromkeys(pointer for pointers in SHOWN.values() for pointer in pointers))
def test_the_test_is_there(pointer: str) -> None:
    file, _, name = pointer.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    assert tests.count(name) == 1 if name else tests, f"{file} has no test {name}"
