"""A stand-in for PyCUDA over the test suite's libcuda."""

from stand_in import fault

VERSION_TEXT = "0.0-stand-in"
fault("pycuda", "import")
