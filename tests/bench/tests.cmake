cohort_add_benchmark(NAME loader_bench SOURCES bench/loader_bench.cpp LIBS cohort::data)
cohort_add_benchmark(NAME optim_bench SOURCES bench/optim_bench.cpp LIBS cohort::optim)
cohort_add_benchmark(NAME engine_bench SOURCES bench/engine_bench.cpp LIBS cohort::session)
cohort_add_benchmark(NAME server_bench SOURCES bench/server_bench.cpp LIBS cohort::train)
cohort_add_benchmark(NAME sim_bench SOURCES bench/sim_bench.cpp LIBS cohort::sim)
# Run by hand: its arguments are a dataset, a model and a number of threads.
add_executable(learner_bench bench/learner_bench.cpp)
target_link_libraries(learner_bench PRIVATE cohort::sim fmt::fmt cohort_build_settings)
set_target_properties(learner_bench PROPERTIES CXX_EXTENSIONS OFF)
