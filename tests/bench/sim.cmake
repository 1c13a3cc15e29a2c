cohort_add_benchmark(NAME sim_bench SOURCES bench/sim_bench.cpp LIBS cohort::sim)
