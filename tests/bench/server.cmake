cohort_add_benchmark(NAME server_bench SOURCES bench/server_bench.cpp LIBS cohort::train)
