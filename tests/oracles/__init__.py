"""What results are compared with: dense, enumerating, integrating and differencing, each written once.

None of them calls the code it is an oracle for: the library's objects give them parameters and nothing else.
"""
