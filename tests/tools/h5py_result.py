"""Reads a result with h5py, by the lines that docs/simulate.md shows.

usage: h5py_result.py DOCS_SIMULATE_MD RESULT_H5
"""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
(lines,) = re.findall(r"<!-- sim_result_file_test -->\n```python\n(.*?)```", text, re.S)
names = {}
exec(lines.replace("run/result.h5", sys.argv[2]), names)  # pylint: disable=exec-used

assert names["mode"] == "static:4", names["mode"]
assert names["virtual_s"] > 0
assert len(names["accuracy"]) == len(names["seconds"]) == 2
assert len(names["why"]) == 3 and names["why"][1] == "", names["why"]
assert list(names["worker_samples"])[1] == 0 and names["worker_samples"][0] > 0
