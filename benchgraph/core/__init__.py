"""What every layer shares: data types, attributes, logical tensors, errors, configuration, the target machine.

Glossary (one word per thing, oneDNN's and benchdnn's terms):

    src wei bia dst acc     operands of an op; acc is a GEMM's running sum
    dt                      data type
    logical tensor          id + dtype + dims + layout + property, no data
    partition               the ops that are compiled and executed together
    post-op                 an elementwise op applied to the result of a tunable op
    tunable | fusible       ops that own a loop nest (MatMul) | ops that join one
    anchor                  a place in a tunable op's loop nest where fusible ops may be put
    M N K                   GEMM extents; mb nb kb are block sizes
    got / want              what we computed / what the reference says
"""
