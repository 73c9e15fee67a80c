"""Other programs behind the library protocol.

checkout/   another checkout or commit of benchgraph, in a process of its own
inference/  runtimes of whole models: ONNX Runtime, OpenVINO, PyTorch; each in a process of its own
"""
