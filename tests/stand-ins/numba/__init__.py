"""A library that is there and cannot be imported."""

raise ImportError("libnvvm.so.4: cannot open shared object file")
