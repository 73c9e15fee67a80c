"""Graph IR: DNN ops with layouts, then fused ops with anchors.

ir.py       the nodes                       build.py    from a partition; op by op
domain.py   what can share a loop nest      product.py  what a microkernel can read
schedule.py template parameters             anchors.py  the anchor cost table
passes/     one file per pass, PIPELINE     text.py verify.py
"""
