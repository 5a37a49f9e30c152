//! The test suite's libcuda.so.1.
