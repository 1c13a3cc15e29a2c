cohort_add_benchmark(NAME server_bench SOURCES bench/server_bench.cpp LIBS cohort::train)
target_include_directories(server_bench PRIVATE ${PROJECT_SOURCE_DIR}/src/train)
