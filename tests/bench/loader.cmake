cohort_add_benchmark(NAME loader_bench SOURCES bench/loader_bench.cpp LIBS cohort::data)
