cohort_add_benchmark(NAME engine_bench SOURCES bench/engine_bench.cpp LIBS cohort::sched)
