cohort_add_benchmark(NAME optim_bench SOURCES bench/optim_bench.cpp LIBS cohort::optim)
